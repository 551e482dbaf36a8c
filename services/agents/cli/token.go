package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/agents/internal/when"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Create a token, print it once and store its hash."`
	List   tokenListCmd   `cmd:"" help:"List tokens and what they allow."`
	Revoke tokenRevokeCmd `cmd:"" help:"Revoke a token."`
}

// tokensFlag selects the file of tokens. Gateways check theirs every ten seconds.
type tokensFlag struct {
	Tokens string `help:"Token file. Gateways read it with the same flag." default:"tokens.json" env:"TRISKELE_TOKENS" placeholder:"FILE"`
}

type tokenCreateCmd struct {
	Name      string       `arg:"" help:"Name of the person or program that uses it."`
	Namespace []string     `short:"n" help:"Namespace that it may access; NAME/* is all below NAME, and * is all." required:"" placeholder:"NAME"`
	Scope     []auth.Scope `help:"Scopes that it has: ${enum}." enum:"recall,read,write,admin" default:"recall,read,write" placeholder:"SCOPE"`
	Expires   when.Moment  `help:"When it expires: a date, a time, or a span from now such as 90d; never if not given." placeholder:"WHEN"`
	Rate      float64      `help:"Calls per second that it may make in one namespace, instead of the gateway's --rate-limit." placeholder:"N"`
	Quota     float64      `help:"Memories per day that it may store in one namespace, instead of the gateway's --write-quota." placeholder:"N"`
	File      tokensFlag   `embed:""`
	JSON      bool         `help:"Print the token and its stored entry as JSON."`
}

func (c *tokenCreateCmd) Validate() error {
	if strings.TrimSpace(c.Name) == "" {
		return errors.New("the name must not be empty: name the person or program that uses the token")
	}
	return nil
}

// Run stores the token before it prints it, so that a printed token always works.
func (c *tokenCreateCmd) Run(env *Env) error {
	now := env.Now()
	grant := auth.Token{Name: c.Name, Namespaces: c.Namespace, Scopes: c.Scope, Rate: c.Rate, Quota: c.Quota}
	if c.Expires.Set() {
		if grant.Expires = c.Expires.Ahead(now).AsTime().Truncate(time.Second); !grant.Expires.After(now) {
			return fmt.Errorf("--expires: %s is in the past", grant.Expires.Format(time.RFC3339))
		}
	}
	secret, kept, err := auth.NewToken(grant, now)
	if err != nil {
		return err
	}
	if err := auth.ChangeTokens(c.File.Tokens, func(tokens []auth.Token) ([]auth.Token, error) { return append(tokens, kept), nil }); err != nil {
		return err
	}
	if c.JSON {
		return env.show(true, struct {
			Secret string `json:"token"`
			auth.Token
		}{secret, kept}, "")
	}
	_, _ = fmt.Fprintf(env.Err, "token %s for %s; its hash is kept in %s. It is not shown again:\n", kept.ID, render.Plain(kept.Name), c.File.Tokens)
	return env.print(secret + "\n")
}

type tokenListCmd struct {
	File tokensFlag `embed:""`
	JSON bool       `help:"Print each token's entry as a line of JSON."`
}

// Run lists the tokens, newest last.
func (c *tokenListCmd) Run(env *Env) error {
	tokens, err := auth.ReadTokens(c.File.Tokens)
	if err != nil {
		return err
	}
	if c.JSON {
		return showLines(env, tokens)
	}
	table := render.Table{Columns: []render.Column{{Name: "id"}, {Name: "state"}, {Name: "name", Gives: true}, {Name: "namespaces", Gives: true}, {Name: "scopes", Gives: true}, {Name: "expires"}}}
	for _, t := range tokens {
		expires := "never"
		if !t.Expires.IsZero() {
			expires = t.Expires.Format(time.DateTime)
		}
		table.Add(t.ID, t.State(env.Now()), t.Name, strings.Join(t.Namespaces, ","), joined(t.Scopes), expires)
	}
	return env.print(env.style().Table(table))
}

func joined(scopes []auth.Scope) string {
	return strings.Join(slice.Map(scopes, func(s auth.Scope) string { return string(s) }), ",")
}

type tokenRevokeCmd struct {
	ID   string     `arg:"" help:"Id of the token, the part between the underscores."`
	File tokensFlag `embed:""`
	JSON bool       `help:"Print the token's entry as JSON."`
}

// Run keeps the entry, so that the list and the audit log can still name the token.
func (c *tokenRevokeCmd) Run(env *Env) error {
	if _, err := os.Stat(c.File.Tokens); err != nil {
		return err
	}
	var revoked auth.Token
	err := auth.ChangeTokens(c.File.Tokens, func(tokens []auth.Token) ([]auth.Token, error) {
		i := slices.IndexFunc(tokens, func(t auth.Token) bool { return t.ID == c.ID })
		if i < 0 {
			return nil, fmt.Errorf("%s has no token %q: `triskele token list` shows them", c.File.Tokens, c.ID)
		}
		if tokens[i].Revoked.IsZero() {
			tokens[i].Revoked = env.Now().UTC().Truncate(time.Second)
		}
		revoked = tokens[i]
		return tokens, nil
	})
	return env.answer(err, c.JSON, revoked, fmt.Sprintf("token %s (%s) is revoked; gateways notice within ten seconds\n", c.ID, render.Plain(revoked.Name)))
}
