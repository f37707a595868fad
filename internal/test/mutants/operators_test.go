package mutants_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mutant is a function with one change.
type mutant struct {
	name string // the function, the text before and after; unique in the file
	fn   *ast.FuncDecl
	text string // of the changed function, from its name
}

// edit replaces the source between two positions.
type edit struct {
	from, to token.Pos
	by       string
}

// operators are the replacements of an operator. gremlins has most of them, but does not change the
// conditions of a switch, whose coverage Go does not record, and removes no statement.
var operators = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL}, token.LSS: {token.LEQ, token.GEQ},
	token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS}, token.LAND: {token.LOR},
	token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL},
	token.INC: {token.DEC}, token.DEC: {token.INC},
}

// fragments are the replacements in literals, which are parts of conditions that a server evaluates.
var fragments = strings.NewReplacer(" AND ", " OR ", "<=", "<", "_not_exists", "_exists", "IS MISSING",
	"IS NOT MISSING", " - ", " + ", `"-`, `"+`)

// mutantsOf returns every mutant of the functions of a file.
func mutantsOf(source string) ([]mutant, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	text := func(n ast.Node) string { return source[n.Pos()-1 : n.End()-1] }
	var all []mutant
	seen := make(map[string]int)
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			for _, e := range editsOf(n, text) {
				from, to := int(e.from)-1, int(e.to)-1
				name := fn.Name.Name + ": " + short(source[from:to]) + " => " + short(e.by)
				if seen[name]++; seen[name] > 1 {
					name += " #" + strconv.Itoa(seen[name])
				}
				all = append(all, mutant{name, fn,
					source[fn.Name.End()-1:from] + e.by + source[to:fn.End()-1]})
			}
			return !isMessage(n)
		})
	}
	return all, nil
}

// isMessage reports whether n formats an error: its text is not behaviour.
func isMessage(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Errorf", "Sprintf"}, sel.Sel.Name)
}

var blanks = regexp.MustCompile(`\s+`)

func short(text string) string {
	text = strings.TrimSpace(blanks.ReplaceAllString(text, " "))
	if len(text) > 90 {
		text = text[:90] + "…"
	}
	return text
}

func editsOf(n ast.Node, text func(ast.Node) string) []edit {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		edits := swaps(n.Op, n.OpPos)
		if n.Op == token.LAND || n.Op == token.LOR {
			edits = append(edits, edit{n.Pos(), n.End(), text(n.X)}, edit{n.Pos(), n.End(), text(n.Y)})
		}
		return edits
	case *ast.UnaryExpr:
		if n.Op == token.NOT || n.Op == token.SUB {
			return []edit{{n.OpPos, n.X.Pos(), ""}}
		}
	case *ast.IncDecStmt:
		return append(swaps(n.Tok, n.TokPos), edit{n.Pos(), n.End(), ""})
	case *ast.ExprStmt:
		return []edit{{n.Pos(), n.End(), ""}}
	case *ast.AssignStmt:
		return assignments(n, text)
	case *ast.IfStmt:
		return negated(n.Cond, text)
	case *ast.CaseClause:
		edits := []edit{{n.Pos(), n.End(), ""}}
		for _, e := range n.List {
			edits = append(edits, negated(e, text)...)
		}
		return edits
	case *ast.CompositeLit:
		return elements(n)
	case *ast.CallExpr:
		return calls(n, text)
	case *ast.ReturnStmt:
		return returns(n)
	case *ast.BasicLit:
		return literals(n)
	}
	return nil
}

func swaps(op token.Token, at token.Pos) []edit {
	var edits []edit
	for _, by := range operators[op] {
		edits = append(edits, edit{at, at + token.Pos(len(op.String())), by.String()})
	}
	return edits
}

// negated negates a condition that is a call or a variable. Those of operators are mutants already.
func negated(cond ast.Expr, text func(ast.Node) string) []edit {
	switch cond.(type) {
	case *ast.CallExpr, *ast.Ident:
		return []edit{{cond.Pos(), cond.End(), "!" + text(cond)}}
	}
	return nil
}

// assignments leaves out each of the assignments of a statement.
func assignments(n *ast.AssignStmt, text func(ast.Node) string) []edit {
	switch {
	case n.Tok == token.DEFINE || len(n.Lhs) != len(n.Rhs):
		return nil
	case len(n.Lhs) == 1:
		return []edit{{n.Pos(), n.End(), ""}}
	}
	edits := make([]edit, 0, len(n.Lhs))
	for i := range n.Lhs {
		var left, right []string
		for k := range n.Lhs {
			if k != i {
				left, right = append(left, text(n.Lhs[k])), append(right, text(n.Rhs[k]))
			}
		}
		edits = append(edits, edit{n.Pos(), n.End(),
			strings.Join(left, ", ") + " = " + strings.Join(right, ", ")})
	}
	return edits
}

// elements leaves out each element with a key of a literal.
func elements(n *ast.CompositeLit) []edit {
	var edits []edit
	for i, e := range n.Elts {
		if _, ok := e.(*ast.KeyValueExpr); !ok {
			continue
		}
		end := n.Rbrace
		if i+1 < len(n.Elts) {
			end = n.Elts[i+1].Pos()
		}
		edits = append(edits, edit{e.Pos(), end, ""})
	}
	return edits
}

// calls leaves out the change of a time, and the bound of a number.
func calls(n *ast.CallExpr, text func(ast.Node) string) []edit {
	switch fun := n.Fun.(type) {
	case *ast.SelectorExpr:
		if fun.Sel.Name == "Add" || fun.Sel.Name == "Truncate" {
			return []edit{{n.Pos(), n.End(), text(fun.X)}}
		}
	case *ast.Ident:
		if (fun.Name == "max" || fun.Name == "min") && len(n.Args) == 2 {
			return []edit{{n.Pos(), n.End(), text(n.Args[0])}, {n.Pos(), n.End(), text(n.Args[1])}}
		}
	}
	return nil
}

func returns(n *ast.ReturnStmt) []edit {
	var edits []edit
	for _, r := range n.Results {
		if id, ok := r.(*ast.Ident); ok {
			if by := map[string]string{"true": "false", "false": "true", "err": "nil"}[id.Name]; by != "" {
				edits = append(edits, edit{r.Pos(), r.End(), by})
			}
		}
	}
	return edits
}

func literals(n *ast.BasicLit) []edit {
	if n.Kind == token.STRING {
		if by := fragments.Replace(n.Value); by != n.Value {
			return []edit{{n.Pos(), n.End(), by}}
		}
	}
	if v, err := strconv.Atoi(n.Value); n.Kind == token.INT && err == nil {
		return []edit{{n.Pos(), n.End(), strconv.Itoa(v + 1)}}
	}
	return nil
}

func TestMutantsOfAFunction(t *testing.T) {
	const source = `package p

func f(a, b int, seen []T) (bool, error) {
	switch {
	case a < b && !ok(a):
		return true, nil
	case ok(b):
		x.set(T{A: 1})
	}
	c, d = a, max(0, b-1)
	if c == d {
		a++
	}
	return false, fmt.Errorf("%d AND %d", 1, 2)
}
`
	all, err := mutantsOf(source)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range all {
		names = append(names, strings.TrimPrefix(m.name, "f: "))
		if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f"+m.text, 0); err != nil {
			t.Errorf("%s: %v in\n%s", m.name, err, m.text)
		}
	}
	want := []string{
		"case a < b && !ok(a): return true, nil => ", "&& => ||", "a < b && !ok(a) => a < b",
		"a < b && !ok(a) => !ok(a)", "< => <=", "< => >=", "! => ",
		"true => false", "case ok(b): x.set(T{A: 1}) => ", "ok(b) => !ok(b)", "x.set(T{A: 1}) => ",
		"A: 1 => ", "1 => 2",
		"c, d = a, max(0, b-1) => d = max(0, b-1)", "c, d = a, max(0, b-1) => c = a", "max(0, b-1) => 0",
		"max(0, b-1) => b-1", "0 => 1", "- => +", "1 => 2 #2",
		"== => !=", "++ => --", "a++ => ", "false => true",
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("mutants\n%s\nwant\n%s", strings.Join(names, "\n"), strings.Join(want, "\n"))
	}
}
