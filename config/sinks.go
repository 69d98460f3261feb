package config

import "strings"

// sinkSettings is what the settings know of one sink. What is done with them is not known here.
type sinkSettings struct {
	name   string               // as KUBECDC_SINK has it
	prefix string               // of the names of its own settings; empty: it has none
	needs  string               // the setting that it can't be without; empty: none
	how    string               // to set that
	check  func(*loader)        // what tags can't say of its settings; may be nil
	log    func(*Config) string // tells apart the logs that one machine may write with it; nil: by the name alone
}

// sinkTable has every sink that KUBECDC_SINK can name. A sink needs its settings only where it is the one that is chosen; those
// that were given are checked all the same, since all that is wrong is said at once, and a password may stand where none belongs.
func sinkTable() []sinkSettings {
	return []sinkSettings{
		{name: "stdout"},
		{name: "kafka", prefix: "KUBECDC_KAFKA_", needs: "KUBECDC_KAFKA_BROKERS", how: "set it to host:port of one or more brokers",
			check: (*loader).checkKafka, log: func(c *Config) string { return c.Kafka.TopicPrefix }},
		{name: "postgres", prefix: "KUBECDC_SINK_POSTGRES", needs: "KUBECDC_SINK_POSTGRES", how: "set it to postgres://USER@HOST/DB",
			check: (*loader).checkPostgresSink},
	}
}

func (l *loader) checkSink() {
	for _, s := range sinkTable() {
		chosen := s.name == l.c.Sink.Kind
		if chosen && s.needs != "" && byEnv[s.needs].value(l.c).Len() == 0 {
			l.add(s.needs, "not set, but KUBECDC_SINK is "+s.name, s.how)
		}
		if s.check != nil {
			s.check(l)
		}
		if !chosen && !l.bad["KUBECDC_SINK"] {
			l.warnNoEffect(s)
		}
	}
}

func (l *loader) warnNoEffect(s sinkSettings) {
	for _, setting := range all {
		if s.prefix != "" && strings.HasPrefix(setting.Env, s.prefix) && l.set(setting.Env) {
			l.warn(setting.Env + " has no effect while KUBECDC_SINK is " + l.c.Sink.Kind + "; to use it, set KUBECDC_SINK=" + s.name)
		}
	}
}

func (l *loader) checkPostgresSink() {
	l.checkPostgres("KUBECDC_SINK_POSTGRES", l.c.Sink.Postgres)
	l.checkPostgresPassword("KUBECDC_SINK_POSTGRES", l.c.Sink.Postgres, l.c.Sink.PasswordFile)
}

// logName tells apart the logs that one machine may write for a cluster.
func (c *Config) logName() string {
	for _, s := range sinkTable() {
		if s.name == c.Sink.Kind && s.log != nil {
			return s.name + "-" + s.log(c)
		}
	}
	return c.Sink.Kind
}
