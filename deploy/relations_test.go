package deploy_test

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// programs are those of the system, by the names of their services.
var programs = []string{"fuser", "memory", "lexical", "dense", "graph"}

// pods are the pods that an overlay makes, by the names of what makes them.
func (m *manifests) pods() map[string]corev1.PodTemplateSpec {
	pods := map[string]corev1.PodTemplateSpec{}
	for _, d := range m.deployments {
		pods[d.Name] = d.Spec.Template
	}
	for _, s := range m.statefulSets {
		pods[s.Name] = s.Spec.Template
	}
	for _, j := range m.jobs {
		pods[j.Name] = j.Spec.Template
	}
	for _, c := range m.clusters { // by its operator
		pods[c.Name] = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: c.Spec.InheritedMetadata.Labels}}
	}
	for _, p := range m.poolers {
		pods[p.Name] = p.Spec.Template
	}
	return pods
}

// chosen are the names of the pods that a selector matches.
func (m *manifests) chosen(t *testing.T, selector *metav1.LabelSelector) (names []string) {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	for name, pod := range m.pods() {
		if s.Matches(labels.Set(pod.Labels)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// hasPort says whether a container of a pod has a port of this name or number.
func hasPort(pod corev1.PodTemplateSpec, port intstr.IntOrString) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == port.StrVal || p.ContainerPort == port.IntVal
		})
	})
}

func TestSelectors(t *testing.T) {
	each(t, func(t *testing.T, name string, m *manifests) {
		for _, d := range m.deployments {
			if got := m.chosen(t, d.Spec.Selector); !slices.Equal(got, []string{d.Name}) {
				t.Errorf("deployment %s: its selector matches the pods of %v", d.Name, got)
			}
			for _, spread := range d.Spec.Template.Spec.TopologySpreadConstraints {
				if got := m.chosen(t, spread.LabelSelector); !slices.Equal(got, []string{d.Name}) {
					t.Errorf("deployment %s is spread with the pods of %v", d.Name, got)
				}
			}
			if !slices.ContainsFunc(m.accounts, func(a *corev1.ServiceAccount) bool {
				return a.Name == d.Spec.Template.Spec.ServiceAccountName && a.AutomountServiceAccountToken != nil && !*a.AutomountServiceAccountToken
			}) {
				t.Errorf("deployment %s: no service account %s without a token", d.Name, d.Spec.Template.Spec.ServiceAccountName)
			}
		}
		headless := map[string]bool{}
		for _, s := range m.services {
			names := m.chosen(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
			if len(names) != 1 {
				t.Errorf("service %s matches the pods of %v", s.Name, names)
				continue
			}
			headless[s.Name] = s.Spec.ClusterIP == corev1.ClusterIPNone && names[0] == s.Name
			for _, port := range s.Spec.Ports {
				if !hasPort(m.pods()[names[0]], port.TargetPort) {
					t.Errorf("service %s: %s has no port %v", s.Name, names[0], port.TargetPort.String())
				}
			}
		}
		for _, name := range programs {
			if !headless[name] {
				t.Errorf("%s has no headless service of its name", name)
			}
		}
		scaled, kept := map[string]bool{}, map[string]bool{}
		for _, a := range m.autoscalers {
			scaled[a.Spec.ScaleTargetRef.Name] = a.Spec.ScaleTargetRef.Kind == "Deployment" && *a.Spec.MinReplicas >= 2
		}
		for _, d := range m.disruptions {
			for _, name := range m.chosen(t, d.Spec.Selector) {
				kept[name] = true
			}
		}
		for _, d := range m.deployments {
			if name != "dev" && !(scaled[d.Name] && kept[d.Name] && d.Spec.Replicas == nil) {
				t.Errorf("deployment %s: scaled %v, kept through disruptions %v", d.Name, scaled[d.Name], kept[d.Name])
			}
		}
		if name != "dev" && len(scaled)+len(kept) != 2*len(m.deployments) {
			t.Errorf("%v are scaled and %v kept, which are not all deployments", scaled, kept)
		}
	})
}

// TestPods: none may do more than it has to, all have probes, and there is time to drain.
func TestPods(t *testing.T) {
	const (
		discovery = 10 * time.Second // a client looks a name up every 3 s, and cluster DNS remembers for 5 s
		drain     = 20 * time.Second // what fuser/platform/rpc gives running calls, and fuser/platform/program telemetry
	)
	each(t, func(t *testing.T, name string, m *manifests) {
		for _, d := range m.deployments {
			pod := d.Spec.Template.Spec
			c := pod.Containers[0]
			for what, ok := range map[string]bool{
				"is not root":                    *pod.SecurityContext.RunAsNonRoot && *pod.SecurityContext.RunAsUser > 0,
				"has a seccomp profile":          pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
				"cannot write its root":          *c.SecurityContext.ReadOnlyRootFilesystem,
				"cannot become more":             !*c.SecurityContext.AllowPrivilegeEscalation && slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}),
				"gets no token":                  !*pod.AutomountServiceAccountToken,
				"asks for resources":             !c.Resources.Requests.Cpu().IsZero() && !c.Resources.Requests.Memory().IsZero() && !c.Resources.Limits.Memory().IsZero(),
				"is ready by its health":         c.ReadinessProbe.HTTPGet.Path == "/healthz" && hasPort(d.Spec.Template, c.ReadinessProbe.HTTPGet.Port),
				"is alive by itself":             c.LivenessProbe.HTTPGet.Path == "/livez" && hasPort(d.Spec.Template, c.LivenessProbe.HTTPGet.Port),
				"stops when nobody comes":        time.Duration(c.Lifecycle.PreStop.Sleep.Seconds)*time.Second >= discovery,
				"follows one that is known":      time.Duration(d.Spec.MinReadySeconds)*time.Second >= discovery,
				"has time to drain":              time.Duration(*pod.TerminationGracePeriodSeconds-c.Lifecycle.PreStop.Sleep.Seconds)*time.Second > drain,
				"is replaced, not taken away":    d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() == 0,
				"is spread over nodes and zones": len(pod.TopologySpreadConstraints) == 2,
			} {
				if !ok {
					t.Errorf("deployment %s: does not hold: %s", d.Name, what)
				}
			}
			for _, mount := range c.VolumeMounts {
				if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) || !mount.ReadOnly {
					t.Errorf("deployment %s: mount %s", d.Name, mount.Name)
				}
			}
		}
		for _, n := range m.namespaces {
			if level := n.Labels["pod-security.kubernetes.io/enforce"]; name != "dev" && level != "restricted" {
				t.Errorf("namespace %s enforces %q", n.Name, level)
			}
		}
	})
}

// TestCallersAreLimited: a gateway that others than its operator call knows its callers and holds them to a rate and a quota.
func TestCallersAreLimited(t *testing.T) {
	each(t, func(t *testing.T, name string, m *manifests) {
		if name == "dev" { // where anybody may do anything
			return
		}
		args := m.pods()["fuser"].Spec.Containers[0].Args
		for _, flag := range []string{"--tokens=", "--rate-limit=", "--write-quota="} {
			i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
			if i < 0 || args[i] == flag+"0" {
				t.Errorf("the gateway's arguments %q do not set %s", args, flag)
			}
		}
	})
}

// TestNetwork: policies cover every pod, and who may call whom is what the design says.
func TestNetwork(t *testing.T) {
	// Who may call whom on which port, as far as both are pods of ours.
	want := map[string]string{
		"fuser lexical": "grpc", "fuser dense": "grpc", "fuser graph": "grpc", "fuser memory": "grpc",
		"memory database": "5432", "lexical database": "5432", "dense database": "5432", "graph database": "5432", "migrate database": "5432",
		"database database": "any", // where there are several
	}
	each(t, func(t *testing.T, name string, m *manifests) {
		// By component, since a pooler is the database to everybody else.
		pair := func(from, to string) string {
			const component = "app.kubernetes.io/component"
			return m.pods()[from].Labels[component] + " " + m.pods()[to].Labels[component]
		}
		in, out := map[string]string{}, map[string]string{}
		closed := map[string]int{}
		for _, n := range m.networks {
			for _, pod := range m.chosen(t, &n.Spec.PodSelector) {
				if n.Name == "nothing-else" && len(n.Spec.Ingress)+len(n.Spec.Egress) == 0 {
					closed[pod] = len(n.Spec.PolicyTypes)
				}
				for _, rule := range n.Spec.Ingress {
					for _, peer := range rule.From {
						for _, other := range m.peers(t, peer) {
							in[pair(other, pod)] = portsOf(rule.Ports)
						}
					}
				}
				for _, rule := range n.Spec.Egress {
					for _, peer := range rule.To {
						for _, other := range m.peers(t, peer) {
							out[pair(pod, other)] = portsOf(rule.Ports)
						}
					}
				}
			}
		}
		for pod := range m.pods() {
			if closed[pod] != 2 {
				t.Errorf("the pods of %s are open in some direction unless told otherwise", pod)
			}
		}
		for pair, port := range want {
			from, to, _ := strings.Cut(pair, " ")
			if pair == "database database" {
				continue
			}
			if in[pair] != port || out[pair] != port {
				t.Errorf("%s calls %s: it may come in by %q and go out by %q, want %q", from, to, in[pair], out[pair], port)
			}
		}
		for pair := range in {
			if want[pair] == "" {
				t.Errorf("%s: may come in", pair)
			}
		}
		for pair := range out {
			if want[pair] == "" {
				t.Errorf("%s: may go out", pair)
			}
		}
	})
}

// peers are our pods that a rule of a policy is about.
func (m *manifests) peers(t *testing.T, peer networkingv1.NetworkPolicyPeer) []string {
	if peer.PodSelector == nil || peer.NamespaceSelector != nil {
		return nil
	}
	return m.chosen(t, peer.PodSelector)
}

func portsOf(ports []networkingv1.NetworkPolicyPort) string {
	if len(ports) != 1 {
		return "any"
	}
	return ports[0].Port.String()
}

// TestSecrets: what a pod is given exists, or docs/deploy.md says who makes it.
func TestSecrets(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, name string, m *manifests) {
		made := map[string]bool{}
		for _, s := range m.secrets {
			made[s.Name] = true
		}
		for _, c := range m.certificates {
			made[c.Spec.SecretName] = true
		}
		needs := map[string]bool{}
		for _, pod := range m.pods() {
			for _, v := range pod.Spec.Volumes {
				if v.Secret != nil && (v.Secret.Optional == nil || !*v.Secret.Optional) {
					needs[v.Secret.SecretName] = true
				}
			}
			for _, c := range pod.Spec.Containers {
				for _, e := range c.Env {
					if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
						needs[e.ValueFrom.SecretKeyRef.Name] = true
					}
				}
			}
		}
		for _, c := range m.clusters {
			made[c.Name+"-app"], made[c.Name+"-ca"] = true, true // by its operator
			for _, role := range c.Spec.Managed.Roles {
				if role.Login {
					needs[role.PasswordSecret.Name] = true
				}
			}
		}
		for _, secret := range slices.Sorted(maps.Keys(needs)) {
			if !made[secret] && !strings.Contains(string(text), "`"+secret+"`") {
				t.Errorf("secret %s: nothing makes it, and docs/deploy.md does not say who does", secret)
			}
		}
	})
}

// TestCertificates: every service has one, for the name by which it is called.
func TestCertificates(t *testing.T) {
	m := &manifests{}
	m.build(t, "overlays/production")
	issuers := map[string]bool{}
	for _, i := range m.issuers {
		issuers[i.Name] = true
	}
	names := map[string][]string{}
	for _, c := range m.certificates {
		if !issuers[c.Spec.IssuerRef.Name] {
			t.Errorf("certificate %s: there is no issuer %s", c.Name, c.Spec.IssuerRef.Name)
		}
		names[c.Spec.SecretName] = c.Spec.DNSNames
	}
	for _, s := range m.services {
		secret := m.chosen(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})[0] + "-tls"
		for _, name := range []string{s.Name, s.Name + "." + s.Namespace, s.Name + "." + s.Namespace + ".svc"} {
			if !slices.Contains(names[secret], name) {
				t.Errorf("service %s: the certificate in %s is not for %s", s.Name, secret, name)
			}
		}
	}
}

// TestCertificateOfDatabase: it is for every name by which programs call the database. Its operator knows the primary's; a pooler shows the
// same certificate.
func TestCertificateOfDatabase(t *testing.T) {
	each(t, func(t *testing.T, _ string, m *manifests) {
		var names []string
		for _, c := range m.clusters {
			names = append(append(names, c.Name+"-rw"), c.Spec.Certificates.ServerAltDNSNames...)
		}
		for name, pod := range m.pods() {
			for _, c := range pod.Spec.Containers {
				for _, e := range c.Env {
					u, err := url.Parse(strings.ReplaceAll(e.Value, "$(SERVICE)", "service"))
					if err != nil || u.Query().Get("sslmode") != "verify-full" {
						continue
					}
					for _, host := range append(strings.Split(u.Query().Get("host"), ","), u.Hostname()) {
						if host != "" && !slices.Contains(names, host) {
							t.Errorf("%s: %s calls %s, and the certificate is for %q", name, e.Name, host, names)
						}
					}
				}
			}
		}
	})
}

// TestBudgetSignal: the metric that legs are scaled by is one that the adapter makes, out of one that gateways have.
func TestBudgetSignal(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("kubernetes", "components", "budget", "adapter.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var adapter struct {
		ExternalRules []struct {
			SeriesQuery string `json:"seriesQuery"`
			Resources   struct {
				Overrides map[string]struct {
					Resource string `json:"resource"`
				} `json:"overrides"`
			} `json:"resources"`
			Name struct {
				As string `json:"as"`
			} `json:"name"`
			MetricsQuery string `json:"metricsQuery"`
		} `json:"externalRules"`
	}
	if err := yaml.UnmarshalStrict(text, &adapter); err != nil {
		t.Fatal(err)
	}
	rule := adapter.ExternalRules[0]
	documented, err := os.ReadFile(filepath.Join("..", "docs", "telemetry.md"))
	if err != nil {
		t.Fatal(err)
	}
	if name := "`" + strings.NewReplacer("_bucket", "", "triskele_leg_", "triskele.leg.").Replace(rule.SeriesQuery) + "`"; !strings.Contains(string(documented), name) {
		t.Errorf("docs/telemetry.md has no %s", name)
	}
	m := &manifests{}
	m.build(t, "overlays/production")
	scaled := map[string]bool{}
	for _, a := range m.autoscalers {
		for _, metric := range a.Spec.Metrics {
			if metric.External != nil {
				scaled[a.Name] = metric.External.Metric.Name == rule.Name.As && metric.External.Metric.Selector.MatchLabels["leg"] == a.Name
			}
		}
	}
	for _, leg := range []string{"lexical", "dense", "graph"} {
		if !scaled[leg] {
			t.Errorf("%s is not scaled by %s of its own", leg, rule.Name.As)
		}
	}
}

// TestMemoryLimits: each program of ours collects garbage before its pod is killed for its memory. What a leg keeps of namespaces leaves
// room for the rest of it.
func TestMemoryLimits(t *testing.T) {
	each(t, func(t *testing.T, _ string, m *manifests) {
		for name, pod := range m.pods() {
			for _, c := range pod.Spec.Containers {
				if !strings.Contains(c.Image, "triskele/") {
					continue
				}
				limit := c.Resources.Limits.Memory().Value()
				i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
				if i < 0 {
					t.Errorf("%s has no GOMEMLIMIT", name)
					continue
				}
				text := strings.TrimSuffix(c.Env[i].Value, "B") // Go's MiB is Kubernetes' Mi
				soft, err := resource.ParseQuantity(text)
				if share := float64(soft.Value()) / float64(limit); err != nil || share < 0.8 || share > 0.9 {
					t.Errorf("%s: GOMEMLIMIT is %s, %.2f of the limit, want 0.8 to 0.9 (%v)", name, c.Env[i].Value, share, err)
				}
				if !slices.Contains([]string{"lexical", "dense", "graph"}, name) {
					continue
				}
				if i = slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "TRISKELE_SEARCH_MEMORY" }); i < 0 {
					t.Errorf("%s has no TRISKELE_SEARCH_MEMORY: by default it keeps 2 GiB of namespaces, of a limit of %d bytes", name, limit)
					continue
				}
				kept, err := resource.ParseQuantity(c.Env[i].Value + "Mi")
				if share := float64(kept.Value()) / float64(limit); err != nil || share > 0.6 {
					t.Errorf("%s: TRISKELE_SEARCH_MEMORY is %s MiB, %.2f of the limit, want at most 0.6 (%v)", name, c.Env[i].Value, share, err)
				}
			}
		}
	})
}
