package apiclient

// SetFollowed records what a watch that is open shows of the objects of a collection, by name, for the client and all made from
// it. nil means that no watch is open.
func (c *Client) SetFollowed(collection string, objects map[string]int64) {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	c.cluster.followed[collection] = objects
}

// Followed returns what SetFollowed has recorded of an object. The object must be read if it is not found.
func (c *Client) Followed(collection, name string) (shows int64, found bool) {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	shows, found = c.cluster.followed[collection][name]
	return shows, found
}
