// Command openapi3 reads an OpenAPI document of version 2, which is what the generator of grpc-gateway writes that can be
// relied upon, and writes it as version 3, which is what other generators read.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
)

func main() {
	if err := convert(); err != nil {
		fmt.Fprintln(os.Stderr, "openapi3:", err)
		os.Exit(1)
	}
}

func convert() error {
	var old openapi2.T
	if err := json.NewDecoder(os.Stdin).Decode(&old); err != nil {
		return err
	}
	joinPaths(&old)
	doc, err := openapi2conv.ToV3(&old)
	if err != nil {
		return err
	}
	doc.Components.SecuritySchemes["bearer"].Value = openapi3.NewSecurityScheme().WithType("http").WithScheme("bearer").
		WithDescription("If the gateway asks for tokens.") // version 2 knows no such scheme
	doc.Security.With(openapi3.NewSecurityRequirement()) // or none
	doc.Servers = openapi3.Servers{{URL: "/"}}           // whoever serves the document
	if err := doc.Validate(context.Background()); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(doc)
}

// joinPaths makes one path of .../{ids} and .../{id}: the name of a part is no part of what is sent, and OpenAPI wants the same
// for all methods. Several ids are joined by commas.
func joinPaths(doc *openapi2.T) {
	for path, several := range doc.Paths {
		above, ok := strings.CutSuffix(path, "/{ids}")
		if !ok {
			continue
		}
		one := doc.Paths[above+"/{id}"]
		for method, operation := range several.Operations() {
			for i, p := range operation.Parameters {
				if p.Name == "ids" {
					operation.Parameters[i] = &openapi2.Parameter{Name: "id", In: "path", Required: true, Type: &openapi3.Types{"string"}, Description: "An id, or several separated by commas."}
				}
			}
			one.SetOperation(method, operation)
		}
		delete(doc.Paths, path)
	}
}
