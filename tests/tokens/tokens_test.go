// Package tokens_test compares the estimate of tokens with the vocabularies of two tokenisers.
package tokens_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"

	"github.com/triskele/triskele/services/agents/briefing"
)

// texts are what agents keep: prose, code, records and tables of this repository, and sentences in other languages.
func texts(t *testing.T) map[string]string {
	root := filepath.Join("..", "..")
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	return map[string]string{
		"prose":  read("CONTRIBUTING.md"),
		"code":   read("services", "agents", "briefing", "briefing.go"),
		"JSON":   read("services", "wiring", "golden", "testdata", "station.jsonl"),
		"tables": read("docs", "bench", "dense.md"),
		"German": "Der Hafenkran wird jedes Frühjahr von zwei Technikern gewartet: Sie schmieren die Lager und wechseln das Drahtseil. Am Freitagabend bemerkte der Bereitschaftsdienst, dass der Druck der dritten Pumpe ständig fällt, und hielt sie zur Überprüfung an.",
		"French": "La grue du port est entretenue chaque printemps par deux techniciens, qui graissent les paliers et remplacent le câble. Vendredi soir, l'équipe de garde a remarqué que la pression de la troisième pompe baissait sans cesse et l'a arrêtée pour contrôle.",

		"Russian":  "Кран обслуживают каждую весну два техника: они смазывают подшипники и меняют трос. В пятницу вечером дежурный заметил, что давление третьего насоса постоянно падает, и остановил его для проверки.",
		"Arabic":   "تتم صيانة الرافعة كل ربيع على يد فنيين اثنين يشحمان المحامل ويستبدلان الحبل السلكي. مساء الجمعة لاحظ المناوب أن ضغط المضخة الثالثة ينخفض باستمرار فأوقفها للفحص.",
		"Chinese":  "起重机每年春天由两名技师保养，润滑轴承并更换钢丝绳。上周五晚上，值班人员发现三号泵的压力持续下降，因此停机检查。会议改到星期三下午两点，请提前准备好季度报告和预算表。",
		"Japanese": "起重機は毎年春に二人の技術者が整備し、軸受に油をさしてワイヤーロープを交換します。金曜日の夜、当直の担当者が三号ポンプの圧力が下がり続けていることに気づき、点検のために停止しました。",
	}
}

// The estimate is never much below the count of the newer vocabulary, o200k. The older, cl100k, has fewer words of languages
// other than English; it is shown, and bounds the estimate for texts in English.
func TestTokensBesideTokenisers(t *testing.T) {
	english := "prose code JSON tables"
	for name, text := range texts(t) {
		estimate := briefing.Tokens(text)
		for _, vocabulary := range []tokenizer.Encoding{tokenizer.O200kBase, tokenizer.Cl100kBase} {
			codec, err := tokenizer.Get(vocabulary)
			if err != nil {
				t.Fatal(err)
			}
			count, err := codec.Count(text)
			if err != nil {
				t.Fatal(err)
			}
			off := 100 * (float64(estimate)/float64(count) - 1)
			t.Logf("%-8s %-11s %5d tokens, estimated %5d, %+.0f %%", name, vocabulary, count, estimate, off)
			low, high := -12., 35.
			if strings.Contains(english, name) {
				high = 15
			} else if vocabulary == tokenizer.Cl100kBase {
				low = -55
			}
			if off < low || off > high {
				t.Errorf("%s: the estimate is %+.0f %% off the count of %s, allowed %+.0f to %+.0f", name, off, vocabulary, low, high)
			}
		}
	}
}
