package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/go/packages"
)

// writeFlags writes the flags that a program's main package defines.
func writeFlags(page *strings.Builder, program string, p *packages.Package) error {
	var rows []string
	var failed error
	for _, file := range p.Syntax {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			row, err := flagRow(p, call)
			if err != nil {
				failed = err
			}
			if row != "" {
				rows = append(rows, row)
			}
			return true
		})
	}
	if failed != nil {
		return failed
	}
	if len(rows) == 0 {
		return errors.New("found none")
	}
	sort.Strings(rows)
	fmt.Fprintf(page, "\n## Flags of the %s\n\n| flag | meaning | default |\n| --- | --- | --- |\n%s", program, strings.Join(rows, ""))
	return nil
}

// flagRow returns the row of a call that defines a flag, and nothing for any other call.
func flagRow(p *packages.Package, call *ast.CallExpr) (string, error) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", nil
	}
	function, ok := p.TypesInfo.Uses[selector.Sel].(*types.Func)
	if !ok || function.Pkg() == nil || function.Pkg().Path() != "flag" {
		return "", nil
	}
	// f.Var(&value, name, usage), f.KindVar(&value, name, fallback, usage), flag.Kind(name, fallback, usage)
	arguments := call.Args
	switch {
	case strings.HasSuffix(function.Name(), "Var"):
		if len(arguments) < 3 {
			return "", nil
		}
		arguments = arguments[1:]
	case len(arguments) != 3:
		return "", nil
	}
	name, err := text(p, arguments[0])
	if err != nil {
		return "", err
	}
	usage, err := text(p, arguments[len(arguments)-1])
	if err != nil {
		return "", fmt.Errorf("-%s: %w", name, err)
	}
	fallback := ""
	if len(arguments) == 3 {
		if fallback, err = value(p, arguments[1]); err != nil {
			return "", fmt.Errorf("-%s: %w", name, err)
		}
	}
	if fallback != "" {
		fallback = "`" + fallback + "`"
	}
	return fmt.Sprintf("| `--%s` | %s | %s |\n", name, cell(usage), fallback), nil
}

func text(p *packages.Package, expression ast.Expr) (string, error) {
	known := p.TypesInfo.Types[expression].Value
	if known == nil || known.Kind() != constant.String {
		return "", errors.New("its name or text is no constant")
	}
	return constant.StringVal(known), nil
}

// value returns a constant as one would write it on the command line.
func value(p *packages.Package, expression ast.Expr) (string, error) {
	typed := p.TypesInfo.Types[expression]
	if typed.Value == nil {
		return "", errors.New("its default is no constant")
	}
	number, isInt := constant.Int64Val(constant.ToInt(typed.Value))
	switch kind := types.TypeString(typed.Type, nil); {
	case typed.Value.Kind() == constant.String:
		return constant.StringVal(typed.Value), nil
	case typed.Value.Kind() == constant.Bool:
		return "", nil
	case kind == "time.Duration" && isInt:
		return time.Duration(number).String(), nil
	case strings.HasSuffix(kind, "slog.Level"):
		return map[int64]string{-4: "DEBUG", 0: "INFO", 4: "WARN", 8: "ERROR"}[number], nil
	case isInt:
		return strconv.FormatInt(number, 10), nil
	}
	return "", fmt.Errorf("its default %s is not foreseen", typed.Value)
}
