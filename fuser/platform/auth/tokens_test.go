package auth

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// TestEveryMethodHasAScope, and every namespace that its request names is looked at.
func TestEveryMethodHasAScope(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, service := range []protoreflect.ServiceDescriptor{
		triskelev1.File_triskele_v1_recall_proto.Services().ByName("RecallService"), triskelev1.File_triskele_v1_memory_proto.Services().ByName("MemoryService"),
	} {
		for i := range service.Methods().Len() {
			method := service.Methods().Get(i)
			seen++
			if name := "/" + string(service.FullName()) + "/" + string(method.Name()); scopes[name] == "" {
				t.Errorf("%s has no scope", name)
			}
			kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
			if err != nil {
				t.Fatal(err)
			}
			request := kind.New()
			want := fill(request, 3)
			got := namespaces(request.Interface())
			if _, ok := request.Interface().(*triskelev1.UpdateRequest); ok {
				want = want[:1] // of the memory in it only named fields are read, of which the namespace is none
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", method.FullName(), got, want)
			}
		}
	}
	if seen != len(scopes)-1 { // one is for operators
		t.Errorf("%d scopes for %d methods", len(scopes), seen)
	}
}

// fill gives every text in a message its field's name, and returns those that name a namespace.
func fill(m protoreflect.Message, depth int) (named []string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap() || depth == 0 || f.ContainingOneof() != nil && !f.HasOptionalKeyword():
		case f.Kind() == protoreflect.StringKind && f.IsList():
			m.Mutable(f).List().Append(protoreflect.ValueOfString(string(f.Name())))
			if f.Name() == "namespaces" {
				named = append(named, string(f.Name()))
			}
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(string(f.Name())))
			if f.Name() == "namespace" || f.Name() == "new_name" {
				named = append(named, string(f.Name()))
			}
		case f.Kind() == protoreflect.MessageKind && f.IsList():
			element := m.Mutable(f).List().AppendMutable()
			named = append(named, fill(element.Message(), depth-1)...)
		case f.Kind() == protoreflect.MessageKind:
			named = append(named, fill(m.Mutable(f).Message(), depth-1)...)
		}
	}
	return named
}

// TestNamespacesOfAnImport: one that is named once among many is not overlooked.
func TestNamespacesOfAnImport(t *testing.T) {
	t.Parallel()
	var memories []*triskelev1.Memory
	for _, n := range []string{"a", "a", "b", "a", ""} {
		memories = append(memories, &triskelev1.Memory{Namespace: n})
	}
	if got := namespaces(&triskelev1.ImportRequest{Memories: memories}); !slices.Equal(got, []string{"a", "b", "a", ""}) {
		t.Errorf("%v", got)
	}
}

func TestParseTokens(t *testing.T) {
	t.Parallel()
	secret, kept, err := NewToken(Token{Name: "n", Namespaces: []string{"a", "b/*", "*"}, Scopes: []Scope{Read}, Rate: 1.5, Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tokens.json")
	if err := WriteTokens(file, []Token{kept}); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if strings.Contains(string(good), strings.SplitN(secret, "_", 3)[2]) {
		t.Error("the token itself is in the file")
	}
	read, err := ParseTokens(good)
	if err != nil || len(read) != 1 || read[0].Hash != hash(secret) || !read[0].Expires.Equal(kept.Expires) {
		t.Fatalf("%+v, %v", read, err)
	}
	for name, change := range map[string][2]string{
		"field":     {`"rate"`, `"speed"`},
		"id":        {kept.ID, "x"},
		"hash":      {kept.Hash, "x"},
		"namespace": {`"b/*"`, `"b*"`},
		"upper":     {`"a"`, `"A"`},
		"scope":     {`"read"`, `"reed"`},
		"rate":      {"1.5", "-1"},
		"more":      {"]\n}", "]\n} {}"},
	} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		if bad == string(good) {
			t.Fatalf("%s: nothing was changed in %s", name, good)
		}
		if _, err := ParseTokens([]byte(bad)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := WriteTokens(file, []Token{kept, kept}); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTokens(file); err == nil {
		t.Error("two of one id are taken")
	}
}

// FuzzParseTokens: what is taken is good by all rules, and stays what it is when it is written and read again.
func FuzzParseTokens(f *testing.F) {
	_, kept, err := NewToken(Token{Name: "n", Namespaces: []string{"a", "b/*", "*"}, Scopes: Scopes, Rate: 1.5, Quota: 3}, time.Unix(0, 0))
	if err != nil {
		f.Fatal(err)
	}
	good, err := json.Marshal(tokensFile{[]Token{kept}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"tokens":[{"id":"00112233aabb","hash":"","namespaces":["*"],"scopes":["read"]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		tokens, err := ParseTokens(text)
		if err != nil {
			return
		}
		for _, token := range tokens {
			if token.check() != nil || token.allows("", "a") {
				t.Errorf("%+v", token)
			}
		}
		again, err := json.Marshal(tokensFile{tokens})
		if err != nil {
			t.Fatal(err)
		}
		if read, err := ParseTokens(again); err != nil || fmt.Sprint(read) != fmt.Sprint(tokens) {
			t.Errorf("got %+v, %v, want %+v", read, err, tokens)
		}
	})
}

// FuzzShown: of all that a caller may show as a token, our own alone is let in.
func FuzzShown(f *testing.F) {
	secret, kept, err := NewToken(Token{Namespaces: []string{"*"}, Scopes: Scopes}, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	known := map[string]Token{kept.ID: kept}
	for _, shown := range []string{"", "Bearer", "Bearer " + secret, "bearer  " + secret, "Bearer " + secret[:len(secret)-1], "Basic " + secret, "Bearer trsk_" + kept.ID, "Bearer " + kept.ID, "Bearer trsk__", "Bearer a.b.c"} {
		f.Add(shown)
	}
	f.Add("Bearer trsk_" + kept.ID + "_" + kept.Hash)
	f.Fuzz(func(t *testing.T, header string) {
		shown, ok := bearer(metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", header)))
		if !ok {
			return
		}
		token, err := verify(known, shown, time.Now())
		if (err == nil) != (shown == secret) || err != nil && token.ID != "" {
			t.Errorf("%q: got %+v, %v", header, token, err)
		}
	})
}

// FuzzWithin: the patterns of a list of namespaces neither overlap nor leave out a name that the token is good for.
func FuzzWithin(f *testing.F) {
	f.Add("acme/* acme acme/billing/*", "ac", "acme/billing/eu")
	f.Add("* a", "", "b")
	f.Add("a a/* a-b a0 a/b/c", "a", "a/b/c")
	f.Fuzz(func(t *testing.T, patterns, prefix, name string) {
		token := Token{Scopes: Scopes}
		for pattern := range strings.FieldsSeq(patterns) {
			if namespacePattern.MatchString(pattern) {
				token.Namespaces = append(token.Namespaces, pattern)
			}
		}
		if !namespacePattern.MatchString(name) || strings.Contains(name, "*") || !strings.HasPrefix(name, prefix) {
			return
		}
		within := token.within(prefix)
		n := 0
		for _, pattern := range within {
			if covers(pattern, name) {
				n++
			}
		}
		if allowed := token.allows(Read, name); n > 1 || (n == 1) != allowed || !slices.IsSorted(within) {
			t.Errorf("%d of %q cover %q, which is allowed: %v, want one if it is", n, within, name, allowed)
		}
	})
}
