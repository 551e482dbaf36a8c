package manual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Shells are the supported shells.
var Shells = []string{"bash", "zsh", "fish"}

// Completion returns a script that completes commands, flags, choices and file names.
func Completion(shell string, model *kong.Application) string {
	switch shell {
	case "zsh":
		return zsh(model)
	case "fish":
		return fish(model)
	}
	return bash(model)
}

// quoted is text as one word of any of the shells.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// command is a section's path without the program's name.
func (s section) command() string {
	_, command, _ := strings.Cut(s.path, " ")
	return command
}

// commands are the quoted paths of all commands, each after a prefix.
func commands(all []section, prefix string) (words []string) {
	for _, s := range all[1:] {
		words = append(words, quoted(prefix+s.command()))
	}
	return words
}

// commandNames are the visible commands directly below.
func (s section) commandNames() (names []string) {
	for _, child := range s.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

// all are the section's flags and those of the sections above it.
func (s section) all() (flags []*kong.Flag) {
	for _, level := range s.AllFlags(true) {
		flags = append(flags, level...)
	}
	return flags
}

func bash(model *kong.Application) string {
	name := model.Name
	var b strings.Builder
	fmt.Fprintf(&b, `# Completion of %[1]s for bash.

_%[1]s() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at= i
  # --flag=value comes as three words
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at ${COMP_WORDS[i]}" in
`, name)
	all := sections(model)
	if len(all) > 1 {
		fmt.Fprintf(&b, "      %s) at+=\" ${COMP_WORDS[i]}\" ;;\n", strings.Join(commands(all, " "), "|"))
	}
	b.WriteString("    esac\n  done\n  local words= values= files=\n  case \"$at\" in\n")
	for _, s := range all {
		path := ""
		if s.depth > 0 {
			path = " " + s.command()
		}
		words := s.commandNames()
		fmt.Fprintf(&b, "    %s)\n      case \"$prev\" in\n", quoted(path))
		for _, flag := range s.all() {
			names := spellings(flag)
			if takesValue(flag) {
				pattern := names[0]
				if flag.Short != 0 {
					pattern += fmt.Sprintf("|-%c", flag.Short)
				}
				fmt.Fprintf(&b, "        %s) %s ;;\n", pattern, bashValue(flag.Value, flag.PlaceHolder, "values=-"))
			}
			words = append(words, names...)
		}
		b.WriteString("      esac\n")
		for _, arg := range s.Positional {
			if set := bashValue(arg, "", ""); set != "" {
				fmt.Fprintf(&b, "      [[ $values$files || $cur == -* ]] || %s\n", set)
			}
		}
		fmt.Fprintf(&b, "      words=%s ;;\n", quoted(strings.Join(words, " ")))
	}
	fmt.Fprintf(&b, `  esac
  case "$files" in
    file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$cur")); return ;;
    dir) compopt -o filenames; COMPREPLY=($(compgen -d -- "$cur")); return ;;
  esac
  if [[ $values == - ]]; then COMPREPLY=(); return; fi
  COMPREPLY=($(compgen -W "${values:-$words}" -- "$cur"))
}

complete -F _%[1]s %[1]s
`, name)
	return b.String()
}

// bashValue is the code that completes a value, or otherwise.
func bashValue(v *kong.Value, placeholder, otherwise string) string {
	switch k := kind(v, placeholder); {
	case choices(v) != nil:
		return "values=" + quoted(strings.Join(choices(v), " "))
	case k != "":
		return "files=" + k
	}
	return otherwise
}

func zsh(model *kong.Application) string {
	name := model.Name
	var b strings.Builder
	fmt.Fprintf(&b, `#compdef %[1]s
# Completion of %[1]s for zsh.

_%[1]s() {
  local at=
  local -i n=1 i
  for ((i = 2; i < CURRENT; i++)); do
    case "$at $words[i]" in
`, name)
	all := sections(model)
	if len(all) > 1 {
		fmt.Fprintf(&b, "      %s) at+=\" $words[i]\"; n=i ;;\n", strings.Join(commands(all, " "), "|"))
	}
	b.WriteString(`    esac
  done
  # what follows the command is completed as if the command were the program
  words=("${(@)words[n,-1]}")
  CURRENT=$((CURRENT - n + 1))
  case "$at" in
`)
	for _, s := range all {
		path := ""
		if s.depth > 0 {
			path = " " + s.command()
		}
		fmt.Fprintf(&b, "    %s)\n      _arguments -S \\\n", quoted(path))
		for _, flag := range s.all() {
			again := ""
			if flag.IsCumulative() {
				again = "*"
			}
			names := spellings(flag)
			if flag.Short != 0 {
				names = append(names, fmt.Sprintf("-%c", flag.Short))
			}
			for _, spelling := range names {
				end := ""
				if takesValue(flag) {
					if strings.HasPrefix(spelling, "--") {
						spelling += "="
					}
					end = ":" + zshText(flag.Name) + ":" + zshValue(flag.Value, flag.PlaceHolder)
				}
				fmt.Fprintf(&b, "        %s \\\n", quoted(again+spelling+"["+zshText(sentence(flag.Help))+"]"+end))
			}
		}
		switch {
		case len(s.Children) > 0:
			var lines []string
			for _, child := range s.Children {
				if !child.Hidden {
					lines = append(lines, zshText(child.Name)+`\:`+quotedInside(zshText(sentence(child.Help))))
				}
			}
			fmt.Fprintf(&b, "        %s ;;\n", quoted(":command:(("+strings.Join(lines, " ")+"))"))
		default:
			for _, arg := range s.Positional {
				times := ":"
				if arg.IsCumulative() {
					times = "*:"
				}
				fmt.Fprintf(&b, "        %s \\\n", quoted(times+zshText(arg.Name)+":"+zshValue(arg, "")))
			}
			b.WriteString("        && return ;;\n")
		}
	}
	fmt.Fprintf(&b, `  esac
}

# sourced, or loaded by the completion system
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then _%[1]s "$@"; else compdef _%[1]s %[1]s; fi
`, name)
	return b.String()
}

// zshText escapes text for _arguments.
func zshText(text string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`, "[", `\[`, "]", `\]`).Replace(text)
}

// quotedInside quotes a description in a ((…)) list.
func quotedInside(text string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, "`", "\\`", "$", `\$`).Replace(text) + `"`
}

func zshValue(v *kong.Value, placeholder string) string {
	switch k := kind(v, placeholder); {
	case choices(v) != nil:
		return "(" + strings.Join(choices(v), " ") + ")"
	case k == "dir":
		return "_files -/"
	case k == "file":
		return "_files"
	}
	return ""
}

func fish(model *kong.Application) string {
	name := model.Name
	all := sections(model)
	var b strings.Builder
	fmt.Fprintf(&b, `# Completion of %[1]s for fish.

# whether the command line has come to a command, by its path
function __%[1]s_at
    set -l at
    set -l words (commandline -opc)
    for word in $words[2..]
        if contains -- (string join -- ' ' $at $word) %[2]s
            set -a at $word
        end
    end
    test "$at" = "$argv[1]"
end

complete -c %[1]s -f
`, name, strings.Join(commands(all, ""), " "))
	for _, s := range all {
		at := fmt.Sprintf("complete -c %s -n %s", name, quoted("__"+name+"_at "+quotedFish(s.command())))
		for _, child := range s.Children {
			if !child.Hidden {
				fmt.Fprintf(&b, "%s -a %s -d %s\n", at, child.Name, fishText(sentence(child.Help)))
			}
		}
		for _, flag := range s.all() {
			for i, spelling := range spellings(flag) {
				line := at + " -l " + strings.TrimPrefix(spelling, "--")
				if flag.Short != 0 && i == 0 {
					line += fmt.Sprintf(" -s %c", flag.Short)
				}
				if takesValue(flag) {
					line += fishValue(flag.Value, flag.PlaceHolder, " -x")
				}
				fmt.Fprintf(&b, "%s -d %s\n", line, fishText(sentence(flag.Help)))
			}
		}
		if slices.ContainsFunc(s.Positional, func(arg *kong.Value) bool { return kind(arg, "") != "" }) {
			fmt.Fprintf(&b, "%s -F\n", at)
		}
		for _, arg := range s.Positional {
			if list := choices(arg); list != nil {
				fmt.Fprintf(&b, "%s -a %s\n", at, quoted(strings.Join(list, " ")))
			}
		}
	}
	return b.String()
}

// fishText is a text as one word of fish, whose quotes take \\ and \'.
func fishText(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

// quotedFish is a path within quotes.
func quotedFish(path string) string { return `"` + path + `"` }

// fishValue is the options that complete a flag's value, or otherwise.
func fishValue(v *kong.Value, placeholder, otherwise string) string {
	switch k := kind(v, placeholder); {
	case choices(v) != nil:
		return " -x -a " + quoted(strings.Join(choices(v), " "))
	case k == "dir":
		return ` -x -a '(__fish_complete_directories)'`
	case k == "file":
		return " -r -F"
	}
	return otherwise
}
