package task

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/terminal"
	"hortus.dev/internal/platform/config"
)

// maxAnswers bounds the file with the answers.
const maxAnswers = 64 << 10

// ModelAtHand returns the name of the model to use if neither --model nor the configuration names one; "" for the
// daemon's default. It names the model in the first line of the command. On a terminal it asks before the first use of
// a model, and remembers the answer. Without a terminal it does not ask: a key is in the environment or the
// configuration of the person who runs the command, and a local server is on this machine, says itself that it serves
// models, and costs nothing.
func ModelAtHand(ctx context.Context, a *app.App) (string, error) {
	if a.Env.ModelAtHand == nil || a.Config.Get("task.model").Origin.Kind != config.FromDefault {
		return "", nil
	}
	if _, remote, err := a.Remote(); remote || err != nil {
		return "", nil // the keys and servers of this machine are not those of another one
	}
	found, ok := a.Env.ModelAtHand(ctx, a.Config.KeySecrets())
	if !ok {
		return "", nil
	}
	said := found.Model + " " + found.Source
	if strings.HasPrefix(found.Source, "key") {
		said = found.Model + " (" + found.Source + ")"
	}
	path, answers := readAnswers(a)
	use, answered := answers[found.Name]
	stderr, shown := a.Env.Stderr.(*os.File)
	if !answered && shown && term.IsTerminal(int(stderr.Fd())) && terminal.Of(a) != nil && path != "" {
		fmt.Fprintf(a.Env.Stderr, "Use the model %s for requests without --model? [Y/n] ", human.Sanitize(said))
		line, err := bufio.NewReader(a.Env.Stdin).ReadString('\n')
		if err != nil {
			return "", api.Errorf(api.KindCanceled, "no answer about the model").WithHint("name it: --model %s, or --model offline", found.Name)
		}
		line = strings.ToLower(strings.TrimSpace(line))
		use = line == "" || line == "y" || line == "yes"
		answers[found.Name] = use
		if err := writeAnswers(path, answers); err != nil {
			return "", err
		}
		a.Note("remembered in %s", path)
		answered = true
	}
	if answered && !use {
		a.Note("model: offline (%s is not used, as answered before; --model %s uses it)", said, found.Name)
		return "", nil
	}
	a.Note("model: %s; --model offline refuses it", said)
	return found.Name, nil
}

// readAnswers reads which models may be used. A file that cannot be read holds no answer.
func readAnswers(a *app.App) (path string, answers map[string]bool) {
	answers = map[string]bool{}
	file := config.DefaultPath(config.Source{Getenv: a.Getenv, UID: max(a.Env.UID, 1)})
	if file == "" {
		return "", answers
	}
	path = filepath.Join(filepath.Dir(file), "models.json")
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() <= maxAnswers {
		if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &answers) != nil {
			answers = map[string]bool{}
		}
	}
	return path, answers
}

func writeAnswers(path string, answers map[string]bool) error {
	b, err := json.MarshalIndent(answers, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, append(b, '\n'), 0o600)
	}
	if err != nil {
		return api.Errorf(api.KindUnavailable, "remember the answer in %s: %w", path, err).WithHint("name the model: --model NAME, or model in [task] of the configuration")
	}
	return nil
}
