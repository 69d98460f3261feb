package main

import "fmt"

// These are the tour's writes to the cluster, except for the few changes that it shows one by one. They are lists of writes, each in its
// order, all lists at once.

// The objects that exist before the exporter first starts.
const (
	seedConfigMaps  = 1000
	seedPods        = 600
	seedDeployments = 400
)

func settingsName(i int) string { return fmt.Sprintf("settings-%d", i) }
func podName(i int) string      { return fmt.Sprintf("pod-%d", i) }
func appName(i int) string      { return fmt.Sprintf("app-%d", i) }
func orderName(i int) string    { return fmt.Sprintf("order-%d", i) }
func ghostName(i int) string    { return fmt.Sprintf("night-job-%d", i) }

// seed creates those objects.
func (c *cluster) seed() (lists [][]write) {
	for i := range seedConfigMaps {
		lists = append(lists, []write{c.creation(configmaps, settingsName(i), configMapBody(object{"stock": "0", "currency": "EUR"}))})
	}
	for i := range seedPods {
		lists = append(lists, []write{c.creation(pods, podName(i), podBody(appName(i%seedDeployments)))})
	}
	for i := range seedDeployments {
		lists = append(lists, []write{c.creation(deployments, appName(i), deploymentBody(appName(i), 2))})
	}
	return lists
}

// burst is a busy moment: many small updates, of three kinds.
func (c *cluster) burst() (lists [][]write) {
	for i := range 80 {
		lists = append(lists, []write{
			c.update(configmaps, settingsName(i), data("stock", "10")),
			c.update(pods, podName(100+i), phase("Running"), "status"),
			c.update(configmaps, settingsName(i), data("stock", "9")),
		})
	}
	for i := range 40 {
		lists = append(lists, []write{c.update(deployments, appName(i), replicas(4))})
	}
	return lists
}

// unseen is what happens while no exporter runs.
func (c *cluster) unseen() (lists [][]write) {
	for i := range 25 { // updated several times over
		lists = append(lists, []write{c.update(configmaps, settingsName(i), data("stock", "8")),
			c.update(configmaps, settingsName(i), data("stock", "7")), c.update(configmaps, settingsName(i), data("stock", "6"))})
	}
	for i := range 20 { // lives and dies
		lists = append(lists, []write{c.creation(pods, ghostName(i), podBody("batch")),
			c.update(pods, ghostName(i), phase("Running"), "status"), c.deletion(pods, ghostName(i))})
	}
	for i := range 10 { // the name goes on, the object does not
		lists = append(lists, []write{c.deletion(pods, podName(500+i)), c.creation(pods, podName(500+i), podBody("other"))})
	}
	for i := range 5 { // and again
		lists = append(lists, []write{c.deletion(deployments, appName(300+i)), c.creation(deployments, appName(300+i), deploymentBody("first", 1)),
			c.deletion(deployments, appName(300+i)), c.creation(deployments, appName(300+i), deploymentBody("second", 2))})
	}
	for i := range 15 {
		lists = append(lists, []write{c.deletion(configmaps, settingsName(900+i)), c.update(deployments, appName(i), replicas(3))})
	}
	for i := range 5 {
		lists = append(lists, []write{c.creation(orders, orderName(2000+i), orderBody("kettle")),
			c.update(orders, orderName(2000+i), orderState("paid")), c.deletion(orders, orderName(2000+i))})
	}
	return append(lists, []write{c.update(orders, orderName(1001), orderState("shipped"))})
}

func count(lists [][]write) (n int) {
	for _, list := range lists {
		n += len(list)
	}
	return n
}
