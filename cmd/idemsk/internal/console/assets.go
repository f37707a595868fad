package console

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
)

//go:embed assets
var assets embed.FS

// muxOf returns a mux that serves a page, with its token, and the files that the page needs.
func muxOf(page, token string, names ...string) *http.ServeMux {
	var text bytes.Buffer
	if err := template.Must(template.ParseFS(assets, "assets/"+page)).Execute(&text, token); err != nil {
		panic(err) // the template is part of the program, and tested
	}
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the name is a constant
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(text.Bytes()) // an error means that the browser has gone
	})
	for _, name := range names {
		mux.Handle("GET /"+name, http.FileServerFS(files))
	}
	return mux
}
