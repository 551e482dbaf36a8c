package deploy_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// release is the version that the programs are built with.
const release = "1.2.3+0123456789ab"

// binaries is the folder with the programs, linked as the Dockerfile says.
var binaries = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "triskele-deploy-")
	if err != nil {
		return "", err
	}
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		return folder, err
	}
	link := regexp.MustCompile(`-ldflags "(.+)"`).FindSubmatch(dockerfile)
	if link == nil {
		return folder, errors.New("the Dockerfile does not say how to link")
	}
	version, commit, _ := strings.Cut(release, "+")
	flags := strings.NewReplacer("$VERSION", version, "$COMMIT", commit).Replace(string(link[1]))
	build := exec.Command("go", "build", "-ldflags", flags, "-o", folder, "./fuser/cmd/fuserd", "./services/cmd/triskele",
		"./services/cmd/memoryd", "./services/cmd/lexicald", "./services/cmd/densed", "./services/cmd/graphd")
	build.Dir, build.Env = "..", append(os.Environ(), "GOWORK=", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return folder, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return folder, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if folder, _ := binaries(); folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// container is how a program is started, in a pod or by Docker.
type container struct {
	image       string
	args        []string
	environment [][2]string
	files       []string // the folders that its secrets are mounted on
}

// TestPrograms starts every container with its arguments, environment and files. The gateway serves, so that its budgets nest; the
// others have understood everything when they wait for a database that is not there.
func TestPrograms(t *testing.T) {
	each(t, func(t *testing.T, _ string, m *manifests) {
		var all []container
		for _, pod := range m.pods() {
			for _, c := range pod.Spec.Containers {
				all = append(all, inPod(t, c, pod))
			}
		}
		startAll(t, all)
	})
}

// inPod is how Kubernetes starts a container.
func inPod(t *testing.T, c corev1.Container, pod corev1.PodTemplateSpec) container {
	out := container{image: c.Image, args: c.Args}
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			e.Value = pod.Labels["app.kubernetes.io/component"]
		}
		for _, above := range out.environment {
			e.Value = strings.ReplaceAll(e.Value, "$("+above[0]+")", above[1])
		}
		if strings.Contains(e.Value, "$(") {
			t.Errorf("%s refers to what is not above it: %s", e.Name, e.Value)
		}
		out.environment = append(out.environment, [2]string{e.Name, e.Value})
	}
	for _, mount := range c.VolumeMounts {
		out.files = append(out.files, mount.MountPath)
	}
	return out
}

// startAll starts those of the containers that are ours, which have to be all there are.
func startAll(t *testing.T, all []container) {
	folder, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	started := map[string]bool{}
	for _, c := range all {
		parts := strings.Split(c.image[:strings.LastIndex(c.image, ":")], "/")
		if len(parts) < 2 || parts[len(parts)-2] != "triskele" {
			continue
		}
		name := parts[len(parts)-1]
		started[name] = true
		t.Run(name+strings.Join(c.args[:min(len(c.args), 1)], ""), func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(folder, name)
			if out, err := exec.CommandContext(t.Context(), program, "--version").CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != release {
				t.Errorf("%s --version: %v: %s", name, err, out)
			}
			c.checkEnvironment(t, program)
			c.start(t, program)
		})
	}
	if len(started) != 6 {
		t.Errorf("%v are not all programs", started)
	}
}

// checkEnvironment refuses variables of ours that the program does not read.
func (c container) checkEnvironment(t *testing.T, program string) {
	var args []string
	for _, arg := range c.args {
		if !strings.HasPrefix(arg, "-") {
			args = append(args, arg)
		}
	}
	help, err := exec.CommandContext(t.Context(), program, append(args, "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	for _, e := range c.environment {
		if strings.HasPrefix(e[0], "TRISKELE_") && !regexp.MustCompile(`\$`+e[0]+`\b`).Match(help) {
			t.Errorf("%s does not read %s", filepath.Base(program), e[0])
		}
	}
}

var (
	// far is far enough: a service waits for its database, and a command cannot reach what it needs.
	far = regexp.MustCompile(`"msg":"serving","|waiting for the database|connection refused|no gateway answers`)
	// host is another container's name and port, in a connection string, a URL or a target; hosts are several.
	host  = regexp.MustCompile(`(@|://|:///)[a-z][a-z.-]*:[0-9]+`)
	hosts = regexp.MustCompile(`host=[a-z,-]+&port=[0-9,]+`)
)

// start runs the program until it has got as far as it can by itself, and stops it.
func (c container) start(t *testing.T, program string) {
	replace := mounted(t, c.files)
	// Nobody is there, and no name has to be looked up to know it.
	lonely := func(text string) string {
		return replace.Replace(hosts.ReplaceAllString(host.ReplaceAllString(text, "${1}127.0.0.1:1"), "host=127.0.0.1,127.0.0.1&port=1,1"))
	}
	var args []string
	for _, arg := range c.args {
		args = append(args, lonely(arg))
	}
	service := strings.HasSuffix(program, "d")
	if service { // the last one counts
		args = append(args, "--listen=127.0.0.1:0", "--admin=127.0.0.1:0")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	for _, e := range c.environment {
		cmd.Env = append(cmd.Env, e[0]+"="+lonely(e[1]))
	}
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	running := true
	for deadline := time.Now().Add(time.Minute); running && !far.MatchString(out.String()); {
		select {
		case <-ended:
			running = false
		case <-ticker.C:
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
		}
	}
	if got := far.FindString(out.String()); got == "" || (service && !running) || strings.HasSuffix(program, "fuserd") != strings.Contains(got, "serving") {
		t.Errorf("%v: %s", args, out.String())
	}
	if !running {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := <-ended; err != nil && service {
		t.Errorf("%v: after SIGTERM: %v\n%s", args, err, out.String())
	}
}

// mounted makes a folder for each that secrets are mounted on, with the files of all of them, and returns what puts them in place.
func mounted(t *testing.T, mounts []string) *strings.Replacer {
	var pairs []string
	for _, mount := range mounts {
		folder := t.TempDir()
		pairs = append(pairs, mount+"/", folder+"/")
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
		certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
		for file, text := range map[string][]byte{
			"tls.crt": public, "ca.crt": public, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), "tokens.json": []byte(`{"tokens":[]}`),
			"pgpass": []byte("*:*:*:*:password\n"),
		} {
			if err := os.WriteFile(filepath.Join(folder, file), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

// output is what a process writes, to be read meanwhile.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *output) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what has been written.
func (b *output) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
