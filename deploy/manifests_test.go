// Package deploy has no code: its tests read what is shipped for clusters and containers as those who use it would, and ask the
// real programs whether they can be started that way.
package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// overlays are what an operator applies at a time, by the folders of which it is made.
var overlays = map[string][]string{
	"dev":        {"overlays/dev"},
	"production": {"overlays/production", "overlays/production/migrate"},
	"pooled":     {"overlays/pooled", "overlays/production/migrate"},
	"citus":      {"overlays/citus", "overlays/production/migrate"},
}

// manifests are an overlay's objects.
type manifests struct {
	namespaces   []*corev1.Namespace
	deployments  []*appsv1.Deployment
	statefulSets []*appsv1.StatefulSet
	jobs         []*batchv1.Job
	services     []*corev1.Service
	accounts     []*corev1.ServiceAccount
	secrets      []*corev1.Secret
	autoscalers  []*autoscalingv2.HorizontalPodAutoscaler
	disruptions  []*policyv1.PodDisruptionBudget
	networks     []*networkingv1.NetworkPolicy
	clusters     []*cluster
	poolers      []*pooler
	issuers      []*issuer
	certificates []*certificate
}

// build returns what a folder gives.
func (m *manifests) build(t *testing.T, folder string) {
	t.Helper()
	if !filepath.IsAbs(folder) {
		folder = filepath.Join("kubernetes", folder)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	for _, object := range built.Resources() {
		text, err := object.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.add(text); err != nil {
			t.Errorf("%s: %s: %v", folder, object.CurId(), err)
		}
	}
}

// strict decodes what Kubernetes itself has and refuses fields that it does not know.
var strict = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// add decodes one object strictly.
func (m *manifests) add(text []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return err
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "postgresql.cnpg.io/v1 Cluster":
		return own(text, &m.clusters)
	case "postgresql.cnpg.io/v1 Pooler":
		return own(text, &m.poolers)
	case "cert-manager.io/v1 Issuer":
		return own(text, &m.issuers)
	case "cert-manager.io/v1 Certificate":
		return own(text, &m.certificates)
	}
	object, _, err := strict.Decode(text, nil, nil)
	if err != nil {
		return err
	}
	switch o := object.(type) {
	case *corev1.Namespace:
		m.namespaces = append(m.namespaces, o)
	case *appsv1.Deployment:
		m.deployments = append(m.deployments, o)
	case *appsv1.StatefulSet:
		m.statefulSets = append(m.statefulSets, o)
	case *batchv1.Job:
		m.jobs = append(m.jobs, o)
	case *corev1.Service:
		m.services = append(m.services, o)
	case *corev1.ServiceAccount:
		m.accounts = append(m.accounts, o)
	case *corev1.Secret:
		m.secrets = append(m.secrets, o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		m.autoscalers = append(m.autoscalers, o)
	case *policyv1.PodDisruptionBudget:
		m.disruptions = append(m.disruptions, o)
	case *networkingv1.NetworkPolicy:
		m.networks = append(m.networks, o)
	default:
		return fmt.Errorf("no test looks at %T", o)
	}
	return nil
}

// own decodes an object of an operator into a struct of the fields that we use.
func own[T any](text []byte, list *[]*T) error {
	object := new(T)
	if err := yaml.UnmarshalStrict(text, object); err != nil {
		return err
	}
	*list = append(*list, object)
	return nil
}

// Objects of CloudNativePG and cert-manager, as far as we use them: their own packages would bring both operators along. What
// they say to the values is for `make test-kubernetes`, which has the operators' schemas.
type (
	object struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	cluster struct {
		object
		Spec struct {
			Instances         int    `json:"instances"`
			ImageName         string `json:"imageName"`
			InheritedMetadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"inheritedMetadata"`
			Bootstrap struct {
				InitDB struct {
					Database               string   `json:"database"`
					Owner                  string   `json:"owner"`
					PostInitApplicationSQL []string `json:"postInitApplicationSQL"`
				} `json:"initdb"`
			} `json:"bootstrap"`
			Certificates struct {
				ServerAltDNSNames []string `json:"serverAltDNSNames"`
			} `json:"certificates"`
			Managed struct {
				Services struct {
					Additional []struct {
						SelectorType    string         `json:"selectorType"`
						ServiceTemplate corev1.Service `json:"serviceTemplate"`
					} `json:"additional"`
				} `json:"services"`
				Roles []struct {
					Name           string   `json:"name"`
					Login          bool     `json:"login"`
					InRoles        []string `json:"inRoles"`
					PasswordSecret named    `json:"passwordSecret"`
				} `json:"roles"`
			} `json:"managed"`
			PostgreSQL struct {
				Synchronous struct {
					Method string `json:"method"`
					Number int    `json:"number"`
				} `json:"synchronous"`
				SharedPreloadLibraries []string          `json:"shared_preload_libraries"`
				Parameters             map[string]string `json:"parameters"`
			} `json:"postgresql"`
			Storage    size                        `json:"storage"`
			WalStorage size                        `json:"walStorage"`
			Resources  corev1.ResourceRequirements `json:"resources"`
		} `json:"spec"`
	}
	pooler struct {
		object
		Spec struct {
			Cluster   named                  `json:"cluster"`
			Type      string                 `json:"type"`
			Instances int                    `json:"instances"`
			Template  corev1.PodTemplateSpec `json:"template"`
			PgBouncer struct {
				PoolMode               string            `json:"poolMode"`
				SharedPreloadLibraries []string          `json:"shared_preload_libraries"`
				Parameters             map[string]string `json:"parameters"`
			} `json:"pgbouncer"`
		} `json:"spec"`
	}
	issuer struct {
		object
		Spec struct {
			SelfSigned *struct{} `json:"selfSigned"`
			CA         *struct {
				SecretName string `json:"secretName"`
			} `json:"ca"`
		} `json:"spec"`
	}
	certificate struct {
		object
		Spec struct {
			IsCA       bool     `json:"isCA"`
			CommonName string   `json:"commonName"`
			SecretName string   `json:"secretName"`
			DNSNames   []string `json:"dnsNames"`
			Usages     []string `json:"usages"`
			Duration   string   `json:"duration"`
			PrivateKey struct {
				Algorithm      string `json:"algorithm"`
				RotationPolicy string `json:"rotationPolicy"`
			} `json:"privateKey"`
			IssuerRef struct {
				Kind string `json:"kind"`
				Name string `json:"name"`
			} `json:"issuerRef"`
		} `json:"spec"`
	}
	named struct {
		Name string `json:"name"`
	}
	size struct {
		Size string `json:"size"`
	}
)

// each runs a test on every overlay.
func each(t *testing.T, test func(t *testing.T, name string, m *manifests)) {
	for name, folders := range overlays {
		t.Run(name, func(t *testing.T) {
			m := &manifests{}
			for _, folder := range folders {
				m.build(t, folder)
			}
			test(t, name, m)
		})
	}
}

// TestEveryFolderIsBuilt: no kustomization is left out of what the tests read.
func TestEveryFolderIsBuilt(t *testing.T) {
	err := filepath.WalkDir("kubernetes", func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) != "kustomization.yaml" || err != nil {
			return err
		}
		folder, err := filepath.Rel("kubernetes", filepath.Dir(path))
		if err != nil || strings.HasPrefix(folder, "components") { // which overlays are built with
			return err
		}
		(&manifests{}).build(t, folder)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPinned pins the images of an overlay by digest, as docs/deploy.md says: an overlay of one's own refers to ours.
func TestPinned(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	here, err := filepath.Abs("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	for _, folders := range overlays {
		for _, folder := range folders {
			own := t.TempDir()
			up, err := filepath.Rel(own, filepath.Join(here, folder))
			if err != nil {
				t.Fatal(err)
			}
			text := "resources: [" + up + "]\nimages:\n"
			for _, name := range []string{"fuserd", "memoryd", "lexicald", "densed", "graphd", "triskele"} {
				for _, registry := range []string{"", "registry.example.com/"} {
					text += "  - {name: " + registry + "triskele/" + name + ", digest: \"" + digest + "\"}\n"
				}
			}
			if err := os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			m, pinned := &manifests{}, 0
			m.build(t, own)
			for name, pod := range m.pods() {
				for _, c := range pod.Spec.Containers {
					if !strings.Contains(c.Image, "triskele/") {
						continue
					}
					if pinned++; !strings.HasSuffix(c.Image, "@"+digest) || strings.Count(c.Image, ":") != 1 {
						t.Errorf("%s: the image of %s is %s, want one by its digest", folder, name, c.Image)
					}
				}
			}
			if pinned == 0 {
				t.Errorf("%s has no image of ours", folder)
			}
		}
	}
}

// TestStrict makes sure that the decoding notices what is not there to be set.
func TestStrict(t *testing.T) {
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIPs: [None]}":                     "",
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIp: None}":                        `unknown field "spec.clusterIp"`,
		"apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: a}\nspec: {dnsName: [a]}":       `unknown field "dnsName"`,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}":                                               "no test looks at",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 1, replicas: 2}":       "already set",
		"apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 1}":         "no kind",
		"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {metrics: 3}": "cannot unmarshal",
	} {
		err := (&manifests{}).add([]byte(text))
		if got := fmt.Sprint(err); (want == "") != (err == nil) || !strings.Contains(got, want) {
			t.Errorf("%s:\n%v, want %q", text, err, want)
		}
	}
}
