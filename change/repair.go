package change

// Repair names an object that differs between the API server and a copy of its stream. It is a parameter of a signal of the
// kind SignalRepair.
type Repair struct {
	Key  string    `json:"key"`
	Live *Identity `json:"live,omitempty"` // what the API server has, or nil
	Held *Identity `json:"held,omitempty"` // what the log has, or nil
	// After is the last signal whose repairs were in the log when it was compared.
	After int64 `json:"after,omitempty"`
}

// Identity identifies one version of one object.
type Identity struct {
	UID             string          `json:"uid"`
	ResourceVersion ResourceVersion `json:"resourceVersion"`
}
