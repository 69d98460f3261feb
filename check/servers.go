package check

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	kubeversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"

	"kubecdc/internal/dependency"
	"kubecdc/internal/pgdb"
	"kubecdc/internal/plain"
	"kubecdc/setup"
)

// These are the oldest versions that have what an export needs, and the difference of clocks that readers of the log notice.
const (
	oldestKubernetes = "1.24" // OpenAPI v3; exact lists are older
	oldestPostgres   = 13     // the oldest that Postgres' makers supported when the tables were designed
	noticedSkew      = 5 * time.Second
)

// checkServerInfo compares the version and the clock of the API server.
func (r *report) checkServerInfo() {
	step := dependency.Step{Awaited: "API server", Address: r.cluster.REST.Host, Limit: checkTimeout}
	err := dependency.Once(r.ctx, step, func(ctx context.Context) error {
		client, err := rest.HTTPClientFor(r.cluster.REST)
		if err != nil {
			return err
		}
		base, _, err := rest.DefaultServerUrlFor(r.cluster.REST)
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("/version").String(), nil)
		if err != nil {
			return err
		}
		asked := time.Now()
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		r.checkClock("API server", answer.Header.Get("Date"), asked)
		var found struct {
			GitVersion string `json:"gitVersion"`
		}
		if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
			return err
		}
		if v, err := kubeversion.ParseGeneric(found.GitVersion); err == nil &&
			v.LessThan(kubeversion.MustParseGeneric(oldestKubernetes)) {
			r.warn("API server", fmt.Sprintf("it is version %s, and Kubernetes before %s is not supported: upgrade it",
				found.GitVersion, oldestKubernetes))
		}
		return nil
	})
	if err != nil {
		r.warn("API server", "its version and its clock can't be read: "+plain.Redact(err.Error()))
	}
}

// checkClock compares the time in a Date header, which has no fractions, with this machine's.
func (r *report) checkClock(whose, date string, asked time.Time) {
	if date, err := http.ParseTime(date); err == nil {
		r.compareClocks(whose, date, asked.Add(-time.Second))
	}
}

// compareClocks warns if a clock is wrong by more than the time since it was asked.
func (r *report) compareClocks(whose string, date, asked time.Time) {
	now := time.Now()
	skew := max(asked.Sub(date), date.Sub(now))
	if skew < noticedSkew {
		return
	}
	than := "behind"
	if date.After(now) {
		than = "ahead of"
	}
	r.warn(whose, fmt.Sprintf("its clock is %s %s this machine's: the times in records contradict each other, and tokens and "+
		"certificates may be "+
		"refused; set both by NTP (chronyc tracking, or timedatectl, shows who is wrong)", skew.Round(time.Second), than))
}

// checkDatabases compares the versions and clocks of the Postgres databases. It skips those that could not be reached, which were
// reported before.
func (r *report) checkDatabases() {
	if location := r.settings.Checkpoint.Location; location.IsPostgres() {
		r.checkDatabase("checkpoint", pgdb.Options{URL: location.Reveal(), PasswordFile: r.settings.Checkpoint.PasswordFile,
			Setting: "KUBECDC_CHECKPOINT", ReadOnly: true})
	}
	if database, ok := setup.SinkOf(r.settings).Database(r.settings); ok {
		r.checkDatabase("sink", database)
	}
}

func (r *report) checkDatabase(what string, options pgdb.Options) {
	ctx, cancel := context.WithTimeout(r.ctx, checkTimeout)
	defer cancel()
	db, err := pgdb.Open(ctx, options)
	if err != nil {
		return
	}
	defer db.Close()
	asked := time.Now()
	var date time.Time
	var number string
	if err := db.QueryRow(ctx, "select clock_timestamp(), current_setting('server_version_num')").Scan(&date,
		&number); err != nil {
		return
	}
	r.compareClocks(what, date, asked)
	if n, err := strconv.Atoi(number); err == nil && n/10000 < oldestPostgres {
		r.warn(what, fmt.Sprintf("Postgres before %d is not supported, and this is %d: upgrade it", oldestPostgres, n/10000))
	}
}
