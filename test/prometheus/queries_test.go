package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// folder has the rules and the dashboard.
const folder = "../../deploy/chart/monitoring/"

type dashboard struct {
	Panels []struct {
		Title   string
		Type    string
		Targets []struct{ Expr string }
	}
}

// query is one query of a panel.
type query struct{ title, expr string }

func readDashboard() (d dashboard, err error) {
	text, err := os.ReadFile(folder + "dashboard.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	return d, err
}

// queries returns the queries of all panels, with the variables as Grafana fills them in for a range of some seconds.
func (d dashboard) queries() (all []query) {
	variables := strings.NewReplacer("$__rate_interval", "4s", "$job", ".*", "$instance", ".*")
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			all = append(all, query{p.Title, variables.Replace(t.Expr)})
		}
	}
	return all
}

type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func readRules() (r rules, err error) {
	text, err := os.ReadFile(folder + "rules.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, &r)
	}
	return r, err
}

// labelsOf returns the labels of each metric in docs/monitoring.md.
func labelsOf() (map[string][]string, error) {
	page, err := os.ReadFile("../../docs/monitoring.md")
	all := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^- `(\\w+)` \\((\\w+)(.*?)\\): ").FindAllStringSubmatch(string(page), -1) {
		labels := regexp.MustCompile(`\w+`).FindAllString(row[3], -1)
		names := []string{row[1]}
		if row[2] == "histogram" {
			names = []string{row[1] + "_bucket", row[1] + "_sum", row[1] + "_count"}
			labels = append(labels, "le")
		}
		for _, name := range names {
			all[name] = labels
		}
	}
	return all, err
}
