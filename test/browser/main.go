// Command browser opens the status page of a running exporter in a headless Chromium, as its readers do, and checks it. With -still it
// checks a page that nothing updates. It has a module of its own, since nothing else needs a browser's protocol.
//
//	browser -url http://127.0.0.1:8080/ -axe axe.min.js -shots docs/images -await "paused by"
//
// When the page is open it prints "open", and then waits for a text that only a live update can bring.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func main() {
	var c check
	flag.StringVar(&c.url, "url", "", "the page")
	flag.StringVar(&c.axe, "axe", "", "file of axe-core, which judges accessibility")
	flag.StringVar(&c.shots, "shots", "", "folder to write pictures to; empty: none")
	flag.StringVar(&c.await, "await", "", "text that an update brings, or that a still page has")
	flag.StringVar(&c.name, "name", "status", "name of the pictures")
	flag.BoolVar(&c.still, "still", false, "the page has no updates")
	flag.Parse()
	if err := c.run(); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
}

type check struct {
	url, axe, shots, await string
	name                   string
	still                  bool
	complaints             []string // the browser's complaints: errors of the script, and what the page's policy forbids
}

func (c *check) run() error {
	// Tests may run as root, who has no sandbox. The browser sees one page, of this project.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Hour))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			c.complaints = append(c.complaints, e.Entry.Text+" "+e.Entry.URL)
		case *runtime.EventExceptionThrown:
			c.complaints = append(c.complaints, e.ExceptionDetails.Error())
		}
	})
	if err := chromedp.Run(ctx, log.Enable()); err != nil {
		return fmt.Errorf("start chromium (make page installs it): %w", err)
	}
	type step struct {
		name string
		do   func(context.Context) error
	}
	steps := []step{{"pictures", c.pictures}, {"phone", c.phone}, {"dark", c.dark}, {"keyboard", c.keyboard}, {"filter", c.filter},
		{"accessible", c.accessible}, {"proxied", c.proxied}, {"live", c.live}, {"without a script", c.noScript}}
	if c.still {
		steps = []step{{"pictures", c.pictures}, {"phone", c.phone}, {"dark", c.dark}, {"keyboard", c.tabs}, {"without a script", c.noScript}}
	}
	for _, step := range steps {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println("ok:", step.name)
	}
	if len(c.complaints) > 0 {
		return errors.New("the browser complains: " + strings.Join(c.complaints, "; "))
	}
	return nil
}

// open opens the page in a window, and waits until it is live.
func (c *check) open(ctx context.Context, width, height int64) error {
	shown := awaitText("#live", "live")
	if c.still {
		shown = awaitText("main", c.await)
	}
	return chromedp.Run(ctx, chromedp.EmulateViewport(width, height), chromedp.Navigate(c.url), shown)
}

// awaitText reads the page until the text is there. A read may fail, since a page that is just being opened takes the place of the one
// before.
func awaitText(selector, text string) chromedp.Action {
	condition := fmt.Sprintf("document.querySelector(%q).innerText.includes(%q)", selector, text)
	return await(func(ctx context.Context) error { return expect(ctx, condition, "") })
}

// await calls read until there is no error. The process that has started this program ends it if that takes too long.
func await(read func(context.Context) error) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		for read(ctx) != nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(100 * time.Millisecond):
			}
		}
		return nil
	})
}

// expect evaluates a condition in the page.
func expect(ctx context.Context, condition, otherwise string) error {
	var holds bool
	if err := chromedp.Run(ctx, chromedp.Evaluate(condition, &holds)); err != nil {
		return err
	}
	if !holds {
		return errors.New(otherwise + ": " + condition)
	}
	return nil
}

func (c *check) pictures(ctx context.Context) error {
	if c.shots == "" {
		return nil
	}
	for _, p := range []struct {
		name          string
		width, height int64
	}{{c.name + "-desktop.png", 1200, 800}, {c.name + "-phone.png", 390, 844}} {
		var picture []byte
		if err := c.open(ctx, p.width, p.height); err != nil {
			return err
		}
		if err := chromedp.Run(ctx, chromedp.CaptureScreenshot(&picture)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(c.shots, p.name), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}

const noOverflow = "document.documentElement.scrollWidth <= innerWidth"

func (c *check) phone(ctx context.Context) error {
	for _, width := range []int64{320, 390, 768, 1280} {
		if err := c.open(ctx, width, 844); err != nil {
			return err
		}
		if err := expect(ctx, noOverflow, fmt.Sprintf("at a width of %d the page scrolls sideways", width)); err != nil {
			return err
		}
	}
	return nil
}

const brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0) / 3"

func (c *check) dark(ctx context.Context) error {
	for scheme, condition := range map[string]string{"light": brightness + " > 200", "dark": brightness + " < 60"} {
		prefer := emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
		if err := chromedp.Run(ctx, prefer); err != nil {
			return err
		}
		if err := c.open(ctx, 1280, 900); err != nil {
			return err
		}
		if err := expect(ctx, condition, "the colours are not for "+scheme); err != nil {
			return err
		}
		if err := c.accessible(ctx); err != nil {
			return fmt.Errorf("%s: %w", scheme, err)
		}
	}
	return nil
}

// keyboard visits all that can have the focus, in the order of the page.
func (c *check) keyboard(ctx context.Context) error {
	if err := c.open(ctx, 1280, 900); err != nil {
		return err
	}
	for _, want := range []string{"skip", "q", "wrong", "Stream", "State", "Complete up to", "Lag", "Changes", "Last gap", "Last proof", "Slot",
		"/status.json", "/metrics", "/readyz", "/healthz"} {
		var got string
		const focus = `(e => e.id || e.className || e.getAttribute("href") || e.innerText)(document.activeElement)`
		err := chromedp.Run(ctx, chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(focus, &got))
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("the tab key goes to %q, not to %q", got, want)
		}
	}
	return nil
}

// tabs visits all links, fields and folded parts, each once, and opens one by the keyboard.
func (c *check) tabs(ctx context.Context) error {
	if err := c.open(ctx, 1280, 900); err != nil {
		return err
	}
	const all = `[...document.querySelectorAll("a[href], input, button, summary")].filter(e => e.checkVisibility())`
	var want, got int
	if err := chromedp.Run(ctx, chromedp.Evaluate(all+".length", &want)); err != nil {
		return err
	}
	for range want {
		const mark = `document.activeElement.dataset ? (document.activeElement.dataset.seen = "1", 0) : (document.activeElement.setAttribute("data-seen", "1"), 0)`
		if err := chromedp.Run(ctx, chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(mark, nil)); err != nil {
			return err
		}
	}
	if err := chromedp.Run(ctx, chromedp.Evaluate(all+`.filter(e => e.getAttribute("data-seen")).length`, &got)); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the tab key goes to %d of %d links, fields and folded parts", got, want)
	}
	const opens = `!document.querySelector("summary") || (document.querySelector("summary").focus(), true)`
	if err := expect(ctx, opens, "no part has the focus"); err != nil {
		return err
	}
	if err := chromedp.Run(ctx, chromedp.KeyEvent(kb.Enter)); err != nil {
		return err
	}
	return expect(ctx, `!document.querySelector("details") || document.querySelector("details").open`, "the first part does not open")
}

func (c *check) filter(ctx context.Context) error {
	const rows = `document.querySelectorAll("#table tbody tr:not([hidden])").length`
	var all, some, none int
	err := chromedp.Run(ctx, chromedp.Evaluate(rows, &all), chromedp.SendKeys("#q", "SECRETS"), chromedp.Evaluate(rows, &some),
		chromedp.SendKeys("#q", "x"), chromedp.Evaluate(rows, &none), chromedp.Evaluate(`document.querySelector("#q").value = ""`, nil))
	if err == nil && (all < 2 || some != 1 || none != 0) {
		err = fmt.Errorf("of %d streams the filter shows %d, and %d with a text that none has", all, some, none)
	}
	return err
}

// accessible lets axe-core judge the page by WCAG 2.2 AA.
func (c *check) accessible(ctx context.Context) error {
	axe, err := os.ReadFile(c.axe)
	if err != nil {
		return err
	}
	const judge = `axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r =>
		r.violations.map(v => v.id + ": " + v.help + " (" + v.nodes.map(n => n.html).slice(0, 3).join(", ") + ")").join("\n"))`
	var found string
	err = chromedp.Run(ctx, chromedp.Evaluate(string(axe)+";0", nil), chromedp.Evaluate(judge, &found,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if err == nil && found != "" {
		err = errors.New(found)
	}
	return err
}

// proxied opens the page through a proxy that answers the first request for updates itself, as while the exporter restarts.
func (c *check) proxied(ctx context.Context) error {
	target, err := url.Parse(c.url)
	if err != nil {
		return err
	}
	forward, requests := httputil.NewSingleHostReverseProxy(target), atomic.Int32{}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 2 { // the first is for the page
			http.Error(w, "no exporter", http.StatusBadGateway)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	before := len(c.complaints)
	err = chromedp.Run(ctx, chromedp.Navigate(proxy.URL), awaitText("#live", "live"), chromedp.Navigate("about:blank"))
	c.complaints = c.complaints[:before] // without the complaint about the answer 502
	if err != nil {
		return fmt.Errorf("no update comes after the proxy's answer: %w", err)
	}
	return nil
}

// live waits for an update. The page must not have been loaded again, and must keep what the reader has typed.
func (c *check) live(ctx context.Context) error {
	if err := c.open(ctx, 1280, 900); err != nil {
		return err
	}
	if err := chromedp.Run(ctx, chromedp.Evaluate("window.same = true", nil), chromedp.SendKeys("#q", "o")); err != nil {
		return err
	}
	fmt.Println("open")
	if err := chromedp.Run(ctx, awaitText("#problems", c.await)); err != nil {
		return fmt.Errorf("no update brings %q: %w", c.await, err)
	}
	const same = `window.same && document.querySelector("#q").value == "o" && document.activeElement.id == "q"`
	if err := expect(ctx, same, "the page was loaded again"); err != nil {
		return err
	}
	const headline = `document.querySelector("h1").innerText.includes("wrong") && document.title.startsWith("✕")`
	return expect(ctx, headline, "the headline is the old one")
}

// noScript reads the document itself, since a page without scripts evaluates nothing.
func (c *check) noScript(ctx context.Context) error {
	var text string
	err := chromedp.Run(ctx, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(c.url), await(func(ctx context.Context) error {
		document, err := dom.GetDocument().Do(ctx)
		if err != nil {
			return err
		}
		main, err := dom.QuerySelector(document.NodeID, "main").Do(ctx)
		if err != nil {
			return err
		}
		text, err = dom.GetOuterHTML().WithNodeID(main).Do(ctx)
		return err
	}))
	if err != nil {
		return err
	}
	wants := []string{c.await, "Last gap", "complete, ", "secrets"}
	if c.still {
		wants = wants[:1]
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			return fmt.Errorf("the page lacks %q: %s", want, text)
		}
	}
	return nil
}
