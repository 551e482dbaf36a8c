package graph

import (
	"strings"

	"github.com/triskele/triskele/fuser/platform/slice"
)

// connectors join parts of a name: Bank of Aldermouth, Vincent van Gogh, Lord of the Rings.
var connectors = slice.Set(strings.Fields("of van von der den de del della di da do dos das du la le el al bin ibn ter ten zu the"))

// honorifics precede a name and are not part of it.
var honorifics = slice.Set(strings.Fields("mr mrs ms dr prof st sr jr"))

// stopWords are never names. Weekdays and months would link everything.
var stopWords = slice.Set(strings.Fields(`
	a an the this that these those
	i me my mine myself you your yours yourself he him his himself she her hers herself it its itself
	we us our ours ourselves they them their theirs themselves one ones someone somebody something anyone anybody
	anything everyone everybody everything nobody nothing none
	who whom whose which what when where why how whether
	am is are was were be been being do does did done doing have has had having will would shall should can could may
	might must ought cannot let
	and or but nor so yet if then else than because as until while although though unless since once
	of at by for with about against between into through during before after above below to from up down in out on off
	over under again further within without across along around near via per
	not no yes ok okay only own same too very just also even still already always never ever often sometimes
	all any both each few more most other others another some such much many less least several enough
	here there now today tomorrow yesterday tonight soon later
	get gets got getting go goes going went gone come comes came make makes made take takes took
	like well really quite rather maybe perhaps please thanks thank hi hello hey oh wow yeah yep nope sure
	monday tuesday wednesday thursday friday saturday sunday
	january february march april may june july august september october november december
	jan feb mar apr jun jul aug sep sept oct nov dec`))

func stopWord(w string) bool {
	return stopWords[w] || stopWords[singular(w)] || strings.HasSuffix(w, "n't")
}

// commonWords often start a sentence without being a name.
var commonWords = slice.Set(strings.Fields(`
	according actual add added additional adds after agreed allow allows almost alternative although among answer answers
	apparently apply approximately ask asked asks assistant avoid aware awesome back bad based basic because become
	becomes before began begin begins behind believe best better beyond big both bought bring brought build builds built
	bug bugs buy call called calls care careful case cause caused change changed changes check checked checks clean clear
	click close closed code common compare compared complete completed config configure congrats congratulations connect
	consider considering contains context continue contact control cool copy correct cost costs count create created
	creates current customer customers daily data date day days deadline decided decision default define deleted deploy
	deployed describe despite details develop different disable discussed does domain dont double draft drop due early
	easy edit eight either email enable end ended enjoy ensure entire equal error errors especially event every
	example except exclude existing expect expected experience explain export expected extra fact failed fails fail
	family feature feel felt file files fill final find finish finished first five fix fixed fixes follow following
	for format former found four free fresh friend friends full fun future general generate give given gives glad goal
	goals good great group guess half hard hate haven help helps helped high hint history hold home hope hopefully hour
	hours house however huge idea ideas identify image implement import important improve include included includes
	including increase indeed info information initial input inside install installed instead interesting internal issue
	issues item items job join keep keeps key kids kind knew know known knows large last lately latest lead leads learn
	learned leave left let lesson level life likely limit link list lists little live lives local location log logged
	logs long look looked looks loose lost lot lots love loved low lucky lunch main manual market mean means meanwhile
	measure meet meeting meetings member members memory mention mentioned message messages met metric mind minor minimum
	missing mode modern moment money month monthly months move moved multiple name named need needs neither new news next
	nice nine node normal note notes noted notice noticed number numbers observed offer office old open opened option
	options order original otherwise output outside overall owner package page paid part parts past pay people perfect
	person photo pick picked place plan planned plans play point points poor possible post prefer preferred prefers
	prepare present press pretty previous price private problem problems process product project projects promise proud
	provide provided provides public pull purchase purpose push put question questions quick quite ran rate raw read ready
	real reason recent record reduce refer regarding release released remember remind reminder remove removed replace
	replaced report reported reports request requests require required requires reset resolved response rest restart
	result results return returns review right role room root rule rules run runs safe said sale save saved saw say says
	schedule scheduled school second section see seems seen select send sends sent serious server service set sets setting
	settings setup seven share shared she ship short should show showed shows side similar simple simply single six size
	skip small sold solution solved sorry sound sounds source speak special specific spent staff stage start started
	starts state status stay step steps stick stop stopped store stored story strong stuff style subject success such
	suggest suggested summary support supports suppose switch system systems table talk talked task tasks teach team
	tell ten test tested tests text thank that them then thing things think third though thought three throughout time
	times tip title todo together told tool tools top topic total totally toward track tried trip true trust try turn
	turned turns two type types typical uh um unfortunately unlike update updated updates upgrade upon use used useful
	user users uses usual value values various verify version versions view visit visited wait waiting walk want wanted
	wants warning watch way ways week weekly weeks weird welcome went whatever whenever wherever whichever whoever whole
	wish won wonder wonderful word words work worked works world worse worst worth write writes written wrong wrote year
	yearly years yet young zero`))
