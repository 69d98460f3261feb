package config

import "strings"

// sinkSettings describes the settings of one sink.
type sinkSettings struct {
	name   string               // the value of KUBECDC_SINK
	prefix string               // of its own settings; empty: it has none
	needs  string               // the setting that it requires; empty: none
	how    string               // to set the required setting
	check  func(*loader)        // what tags can't express of its settings; may be nil
	log    func(*Config) string // identifies the log among those that this sink can write; nil: there is one
}

// sinkTable has every sink that KUBECDC_SINK can name. Required settings are required of the selected sink only. Settings that
// were given are checked for every sink: all problems are reported at once, and a value may hold a misplaced password.
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

// logName identifies the log among those that a machine may write for one cluster.
func (c *Config) logName() string {
	for _, s := range sinkTable() {
		if s.name == c.Sink.Kind && s.log != nil {
			return s.name + "-" + s.log(c)
		}
	}
	return c.Sink.Kind
}
