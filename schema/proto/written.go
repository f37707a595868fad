package proto

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	// The files google/type/*.proto.
	_ "google.golang.org/genproto/googleapis/type/calendarperiod"
	_ "google.golang.org/genproto/googleapis/type/color"
	_ "google.golang.org/genproto/googleapis/type/date"
	_ "google.golang.org/genproto/googleapis/type/datetime"
	_ "google.golang.org/genproto/googleapis/type/dayofweek"
	_ "google.golang.org/genproto/googleapis/type/decimal"
	_ "google.golang.org/genproto/googleapis/type/expr"
	_ "google.golang.org/genproto/googleapis/type/fraction"
	_ "google.golang.org/genproto/googleapis/type/interval"
	_ "google.golang.org/genproto/googleapis/type/latlng"
	_ "google.golang.org/genproto/googleapis/type/localized_text"
	_ "google.golang.org/genproto/googleapis/type/money"
	_ "google.golang.org/genproto/googleapis/type/month"
	_ "google.golang.org/genproto/googleapis/type/phone_number"
	_ "google.golang.org/genproto/googleapis/type/postaladdress"
	_ "google.golang.org/genproto/googleapis/type/quaternion"
	_ "google.golang.org/genproto/googleapis/type/timeofday"
)

// builtin has the files of Confluent's registry, which schemas import without a reference. They are not linked
// as Go packages, because a program can have those of Confluent's client.
//
//go:embed builtin
var builtin embed.FS

// written are the files with which a message was written, without what decoding does not use: a registry takes
// a file whose options have no definition, or whose imports it does not have.
type written struct {
	sources map[string]string // by their names: a schema, and those that it refers to
	files   map[string]parser.Result
	missing []string // imports
}

// compileWritten compiles a file of a schema.
func compileWritten(name string, sources map[string]string) (protoreflect.FileDescriptor, error) {
	w := &written{sources: sources, files: make(map[string]parser.Result)}
	for _, source := range slices.Sorted(maps.Keys(sources)) {
		if err := w.add(source); err != nil {
			return nil, err
		}
	}
	compiler := protocompile.Compiler{Resolver: w.resolver()}
	files, err := compiler.Compile(context.Background(), name)
	switch {
	case err != nil && len(w.missing) > 0:
		return nil, fmt.Errorf("%w (not among the references of the schema in the registry: %s)", err,
			strings.Join(w.missing, ", "))
	case err != nil:
		return nil, err
	}
	return files[0], nil
}

// add parses a file.
func (w *written) add(name string) error {
	handler := reporter.NewHandler(nil)
	parsed, err := parser.Parse(name, strings.NewReader(withoutOptions(w.sources[name])), handler)
	if err != nil {
		return err
	}
	result, err := parser.ResultFromAST(parsed, true, handler)
	if err != nil {
		return err
	}
	f := result.FileDescriptorProto()
	f.Service = nil
	w.dropImports(f)
	w.files[name] = result
	return nil
}

func (w *written) resolver() protocompile.Resolver {
	return protocompile.WithStandardImports(protocompile.ResolverFunc(w.find))
}

// find finds a file that is not part of Protobuf itself.
func (w *written) find(name string) (found protocompile.SearchResult, err error) {
	if found.ParseResult = w.files[name]; found.ParseResult != nil {
		return found, nil
	}
	if strings.HasPrefix(name, "google/type/") {
		found.Desc, err = protoregistry.GlobalFiles.FindFileByPath(name)
		return found, err
	}
	found.Source, err = builtin.Open("builtin/" + name)
	return found, err
}

// dropImports removes the imports that are found nowhere. If a type is in one of them, the file does not
// compile.
func (w *written) dropImports(f *descriptorpb.FileDescriptorProto) {
	var found, public []string
	for i, name := range f.GetDependency() {
		_, isSource := w.sources[name]
		if _, err := w.resolver().FindFileByPath(name); err != nil && !isSource {
			w.missing = append(w.missing, name)
			continue
		}
		found = append(found, name)
		if slices.Contains(f.GetPublicDependency(), int32(i)) {
			public = append(public, name)
		}
	}
	f.Dependency, f.PublicDependency, f.WeakDependency = found, nil, nil
	for _, name := range public {
		f.PublicDependency = append(f.PublicDependency, int32(slices.Index(found, name)))
	}
}
