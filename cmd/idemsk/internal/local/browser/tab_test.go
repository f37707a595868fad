//go:build rest

package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
)

// browser is a tab of a headless Chromium.
type browser struct {
	t    testing.TB
	ctx  context.Context //nolint:containedctx // it is the tab
	page string
	axe  string
}

// launch starts a browser with a run, and ends both with the test.
func launch(t testing.TB) *browser {
	t.Helper()
	opened := make(chan struct{})
	close(opened)
	return launchWith(t, once, opened)
}

func launchWith(t testing.TB, runs func(ctx context.Context, o local.Options) error,
	opened <-chan struct{}) *browser {
	t.Helper()
	b := tab(t)
	b.page = start(b.ctx, t, runs, opened)
	return b
}

// tab starts a browser, and ends it with the test.
func tab(t testing.TB) *browser {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts", "chromium.sh")).Output()
	if err != nil {
		t.Fatalf("scripts/chromium.sh: %v", err)
	}
	dir := strings.TrimSpace(string(out))
	axe, err := os.ReadFile(filepath.Join(dir, "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(
		chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(filepath.Join(dir, "chromium")), chromedp.NoSandbox,
		chromedp.Flag("no-zygote", true), chromedp.Flag("single-process", true),
		chromedp.Flag("in-process-gpu", true), chromedp.Flag("use-gl", "angle"),
		chromedp.Flag("use-angle", "swiftshader"),
		chromedp.Env("FONTCONFIG_PATH="+filepath.Join(dir, "fonts"), "LD_LIBRARY_PATH="+dir))
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(t.Context()), 5*time.Minute,
		errors.New("the test took too long"))
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return &browser{t: t, ctx: ctx, axe: string(axe)}
}

func do[T any](b *browser, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	return v
}

func (b *browser) eval(script string) string {
	b.t.Helper()
	return do(b, script, chromedp.Evaluate[string](script))
}

// open shows a view. The address before is left, so that the script of the page starts anew.
func (b *browser) open(view string) {
	b.t.Helper()
	do(b, "leaving", chromedp.Navigate("about:blank"))
	do(b, "opening "+view, chromedp.Navigate(b.page+"#/"+view))
}

// until waits until a script returns true. If the document is replaced meanwhile, the browser forgets the
// script, and it starts anew.
func (b *browser) until(script string) error {
	for {
		_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](script, chromedp.WithPollingTimeout(3*time.Minute)))
		if err == nil || b.ctx.Err() != nil ||
			!strings.Contains(err.Error(), "Cannot find context with specified id") {
			return err
		}
	}
}

// wait waits until the page has a text.
func (b *browser) wait(text string) {
	b.t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.until(fmt.Sprintf("document.body.innerText.includes(%s)", quoted)); err != nil {
		b.t.Fatalf("the page does not show %q: %v\n%s", text, err, b.eval("document.body.innerText"))
	}
}

// click clicks the button or link with a text, once it is there.
func (b *browser) click(text string) {
	b.t.Helper()
	script := fmt.Sprintf(`(() => { const el = [...document.querySelectorAll('button, main a')].find(e => e.textContent === %q); if (el) el.click(); return !!el; })()`, text)
	if err := b.until(script); err != nil {
		b.t.Fatalf("there is no %q to click: %v\n%s", text, err, b.eval("document.body.innerText"))
	}
}

// check lets axe-core check the view, and keeps a picture of it.
func (b *browser) check(name string) {
	b.t.Helper()
	do(b, "axe", chromedp.Evaluate[bool](b.axe+"; true"))
	found := do(b, "axe", chromedp.Evaluate[string](
		`axe.run().then(r => r.violations.map(v => v.id + ': ' + v.help + ' ' + v.nodes.map(n => n.html).join(' ')).join('\n'))`, chromedp.EvalAwaitPromise))
	if found != "" {
		b.t.Errorf("%s: axe-core reports\n%s", name, found)
	}
	if wide := do(b, "width", chromedp.Evaluate[bool](
		"document.documentElement.scrollWidth > innerWidth")); wide {
		b.t.Errorf("%s: the page is wider than the window", name)
	}
	b.fits(name)
	if dir := os.Getenv(picturesVariable); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), do(b, "a picture", chromedp.FullScreenshot(100)), 0o600); err != nil { //nolint:mnd // PNG
			b.t.Error(err)
		}
	}
}

// fits checks that each tab is within the window, that no card overflows, and that a narrow header has two lines.
func (b *browser) fits(name string) {
	b.t.Helper()
	found := b.eval(`(() => {
  const bad = [...document.querySelectorAll('nav a')].filter(a => a.getBoundingClientRect().right > innerWidth || a.getBoundingClientRect().left < 0).map(a => 'the tab ' + a.textContent);
  bad.push(...[...document.querySelectorAll('.card:not(.scroll)')].filter(c => c.scrollWidth > c.clientWidth).map(c => 'the card ' + c.textContent.slice(0, 60)));
  if (innerWidth < 640 && document.querySelector('header').offsetHeight > 92) bad.push('the header of ' + document.querySelector('header').offsetHeight + ' px');
  return bad.join(', ');
})()`)
	if found != "" {
		b.t.Errorf("%s: these do not fit: %s", name, found)
	}
}

// look sets the size of the window and the colour scheme.
func (b *browser) look(width, height int64, scheme string) {
	b.t.Helper()
	do(b, "the window", chromedp.EmulateViewport(width, height))
	do(b, "the scheme", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// produce fills in the form.
func (b *browser) produce(id, value string) {
	b.t.Helper()
	script, err := json.Marshal([]string{id, value})
	if err != nil {
		b.t.Fatal(err)
	}
	b.eval(fmt.Sprintf(`(() => { document.getElementById('said').textContent = ''; const [id, value] = %s; const f = document.querySelector('form'); f.querySelectorAll('input')[1].value = id; f.querySelector('textarea').value = value; f.requestSubmit(); return ''; })()`, script))
	b.wait("Produced payments-")
}

// file selects a file with records, and produces it.
func (b *browser) file(text string) {
	b.t.Helper()
	b.eval(fmt.Sprintf(`(() => { const input = document.querySelector('input[type=file]'), files = new DataTransfer(); files.items.add(new File([%s], 'records.jsonl')); input.files = files.files; input.form.requestSubmit(); return ''; })()`, strconv.Quote(text)))
}

func record(key string) string { return "record/" + url.PathEscape("payments#payments#"+key) }

func payment(id string) string {
	return fmt.Sprintf(`{"paymentId":%q,"account":"alice","amount":500,"currency":"EUR"}`, id)
}
