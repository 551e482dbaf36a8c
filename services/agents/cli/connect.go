package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/agents/connect"
	"github.com/triskele/triskele/services/agents/internal/render"
)

// checkTime bounds starting a client's MCP server and a recall through it.
const checkTime = 15 * time.Second

type connectCmd struct {
	Client    string `arg:"" optional:"" help:"The agent: ${clients}."`
	List      bool   `help:"List the agents that are found, and recall through each that is connected."`
	Undo      bool   `help:"Remove Triskele from the agent's files."`
	DryRun    bool   `help:"Show the changes and make none."`
	Namespace string `short:"n" help:"Namespace of the agent's memories." default:"default" env:"TRISKELE_NAMESPACE"`
	Address   string `help:"Address of a gateway that the agent uses. Without it the agent opens the database itself." env:"TRISKELE_ADDRESS" placeholder:"HOST:PORT"`
	SQLite    string `name:"sqlite" help:"Path of the SQLite file; the platform's data folder if not given." env:"TRISKELE_SQLITE" placeholder:"PATH"`
	jsonFlag
}

// clientNames lists the names of agents for help and errors.
func clientNames() string {
	return strings.Join(slice.Map(connect.Clients, func(c connect.Client) string { return c.Name }), ", ")
}

func (c *connectCmd) Validate() error {
	_, known := connect.Find(c.Client)
	switch {
	case c.List && c.Client != "":
		return errors.New("--list is for all agents: give no name")
	case !c.List && c.Client == "":
		return errors.New("name an agent, one of " + clientNames() + ", or give --list")
	case c.Client != "" && !known:
		return errors.New("agents are called " + clientNames())
	case c.Address != "" && c.SQLite != "":
		return errors.New("both --address and --sqlite are given: choose one")
	case c.List || c.Undo:
		return nil // without an address or a namespace, whatever the environment has
	case c.Address != "" && !strings.Contains(c.Address, ":"):
		return errors.New("--address must be HOST:PORT")
	}
	if _, err := os.Stat(filepath.Dir(c.SQLite)); c.SQLite != "" && err != nil {
		return fmt.Errorf("there is no folder %s: create it, or correct --sqlite", filepath.Dir(c.SQLite))
	}
	return cmp.Or(checkAddress(c.Address), checkNamespace(c.Namespace))
}

// changedFile is a change in the output of --json.
type changedFile struct {
	File string `json:"file"`
	Diff string `json:"diff"`
	Kept string `json:"kept,omitempty"` // the copy from before the first change
}

func (c *connectCmd) Run(ctx context.Context, env *Env) error {
	home := env.home()
	if c.List {
		return c.list(ctx, env, home)
	}
	if !c.DryRun {
		unlock, err := connect.Lock(ctx, home)
		if err != nil {
			return err
		}
		defer unlock()
	}
	client, _ := connect.Find(c.Client)
	var changes []connect.Change
	var err error
	if c.Undo {
		changes, err = client.PlanUndo(home)
	} else {
		var program connect.Program
		if program, err = c.program(); err == nil {
			changes, err = client.Plan(home, program)
		}
	}
	if err != nil {
		return err
	}
	files, text := []changedFile{}, ""
	for _, change := range changes {
		file := changedFile{File: change.Path, Diff: change.Diff()}
		text += render.Lines(file.Diff)
		if !c.DryRun {
			if err := change.Apply(); err != nil {
				return err
			}
			if file.Kept = change.Kept(); file.Kept != "" {
				text += "The file as it was is kept in " + render.Plain(file.Kept) + ".\n"
			}
		}
		files = append(files, file)
	}
	switch {
	case len(changes) == 0 && c.Undo:
		text += client.Title + " has nothing of Triskele's.\n"
	case len(changes) == 0:
		text += client.Title + " is connected already.\n"
	case c.DryRun:
		text += "Nothing was changed.\n"
	case c.Undo:
		text += client.Title + " is no longer connected.\n"
	default:
		text += client.Title + " is connected: restart it. `triskele connect --list` tries the connection.\n"
	}
	return env.show(c.JSON, files, text)
}

// program returns how agents are to start this program.
func (c *connectCmd) program() (connect.Program, error) {
	path, err := os.Executable()
	if err != nil {
		return connect.Program{}, err
	}
	var flags []string
	if c.Namespace != "default" {
		flags = append(flags, "--namespace", c.Namespace)
	}
	if c.Address != "" {
		flags = append(flags, "--address", c.Address)
	}
	if c.SQLite != "" {
		path, err := filepath.Abs(c.SQLite)
		if err != nil {
			return connect.Program{}, err
		}
		flags = append(flags, "--sqlite", path)
	}
	return connect.Program{Path: path, MCP: append([]string{"mcp"}, flags...), Hook: append([]string{"hook"}, flags...)}, nil
}

// connection is an agent in the output of --list.
type connection struct {
	Client    string `json:"client"`
	Found     bool   `json:"found"`
	Connected bool   `json:"connected"`
	Hooks     bool   `json:"hooks"`
	Works     bool   `json:"works"`
	Problem   string `json:"problem,omitempty"`
}

func (c *connectCmd) list(ctx context.Context, env *Env, home connect.Home) error {
	var list []connection
	table := render.Table{Columns: []render.Column{{Name: "agent"}, {Name: "found"}, {Name: "tools"}, {Name: "hooks"}, {Name: "works", Gives: true}}}
	for _, client := range connect.Clients {
		state, err := client.Look(home)
		one := connection{Client: client.Name, Found: state.Found, Connected: state.Server != nil, Hooks: state.Hooked}
		if err == nil && one.Connected {
			limited, cancel := context.WithTimeout(ctx, checkTime)
			err = connect.Check(limited, state.Server)
			cancel()
			one.Works = err == nil
		}
		if err != nil {
			one.Problem = render.Plain(err.Error())
		}
		list = append(list, one)
		works := "–"
		switch {
		case one.Problem != "":
			works = one.Problem
		case one.Works:
			works = "yes"
		}
		hooks := yesNo(one.Hooks)
		if !client.Hooks {
			hooks = "–"
		}
		table.Add(one.Client, yesNo(one.Found), yesNo(one.Connected), hooks, works)
	}
	return env.show(c.JSON, list, env.style().Table(table))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
