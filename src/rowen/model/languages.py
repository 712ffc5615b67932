"""Detect the language of a text from its script, or from its function words and letters.

Detection depends on the text alone, so that a refreshed index has the same languages as a rebuilt one.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache, lru_cache

__all__ = ["detect_language", "item_language", "passage_language"]

# The first words of a text show its language: beyond 3,000 characters no paragraph was detected differently.
_READ = 1500

# The evidence needed for the most likely language: about one function word that only it has, and a lead over the second
# language. With half of both, 1.5 % more of short questions are detected, a tenth of them wrongly (13,000 questions in
# 12 languages).
_LEAST = 0.6
_LEAD = 0.2
_RATIO = 1.1

# A declaration is corrected, or a passage gets another language than its item, only with the evidence of two words of a
# single language, and three times the evidence of the other language. Of 19,000 sentences in 33 languages with a
# correct declaration 1 in 10,000 was corrected; of sentences declared as English 73 % were, and 99 % of paragraphs.
_CERTAIN = 2.0
_CERTAIN_RATIO = 3.0

# A letter that only one language has weighs almost as much as a word; a word of one letter may be an abbreviation.
_LETTER_WEIGHT = 0.8
_SHORT_WORD_WEIGHT = 0.5

# PostgreSQL analyses a text of an unknown language as English.
_DEFAULT = "en"

# Groups of languages with so many common words that a short text does not distinguish them; a declaration decides.
_SIBLINGS = ({"da", "nb", "nn", "no"}, {"hr", "sr", "bs", "sh"}, {"cs", "sk"}, {"he", "yi"}, {"id", "ms"}, {"gl", "pt"})

# The most frequent function words of languages that share their script with other languages. A word of several
# languages is evidence for each of them; the more languages share it, the smaller its weight.
_FUNCTION_WORDS = {
    "en": """the of in and to a was is that on by it as for with his at are but from this an were be have their
        which he had there has more not i about who also they its into her than been after would when or can between
        will during other up out all if such while we no she most however so only being some could then until own
        these did does what where how why many much any you your my our us me him them each both very those through
        over under against because should must may do just here whose whom""",
    "de": """die der und in von zu den das eine es er für des mit als auf im ist sich ein dass sie wurde dem war
        nicht um einer am an hat werden auch über wird nach aus einen einem diese bei haben sind aber hatte mehr wie
        durch waren noch bis oder zum seine würde zur sein wenn wurden ich dieser vor ihre so unter während zwischen
        ihr viele nur doch kann ihrer eines sehr worden seit wir hatten dazu dann gegen seiner weil ihren davon
        immer vom was ihn keine wo seinen kein welche welcher welches wer wann warum wieviel ohne beim dieses diesem
        mich mir uns euch können soll sollte muss hier dort jede jeder jedes damit ab je sowie alle allen alles
        müssen jeden""",
    "fr": """de la le l et les à en d un des est une que du il dans qui pour au par plus qu sur été pas son ont ce
        avec était n sa comme sont ne se cette après ils elle deux y avait leur ou pendant aux entre ses ces on fut
        si être lui où peut avaient avant je j sans fait dont ans bien étaient toujours tout nous également très
        encore sous depuis avoir eu chez chaque cela moins aussi quel quelle quels quelles quand comment pourquoi
        combien vous votre vos notre nos leurs mais même cet ni donc lorsque ainsi selon tous toutes doit doivent
        peuvent""",
    "es": """de el la en que y a los se un del las su con una por como al para no es fue más lo también pero ha
        entre había sus sin este desde durante era cuando o esta hasta le si tras ya fueron mientras ser está
        después son esto antes estaba tiene han solo pueden muy hecho hacer mismo poco están tienen hacia todo cual
        luego hay menos todas además otros otro quien quién qué cuál cómo cuándo cuánto cuántos dónde porque donde
        nos les sobre e u estos estas esa ese eso sino según cada todos debe deben días día año años través""",
    "it": """di e la il che in a un l per del i è della nel le si una ha con non al come dell da sono gli dei più
        anche loro delle sua alla ma nella era all dopo stato prima essere suo lo hanno degli fu su durante nell due
        quando nei dalla tuttavia questo o cui venne solo ci può se fino nelle uno circa dal sul questa ancora molti
        avere fatto ai possono dall dalle sue dai già tempo altri molto agli negli perché dove chi quale quali
        quanto quanti cosa sulla sulle sui nello allo dello ed ad tra fra qual c quella quello questi queste tutti
        tutte devono deve stesso ogni""",
    "pt": """de a o e que em da do um para uma os na as com no é foi por como se ele mais não sua dos mas à seu ao
        durante das são está ou pela pelo entre sobre vez também eles ser suas depois sido tem nos até estava seus
        há eu nas sem quando pode ainda cada antes agora pelos contra após muito então já menos bem várias esta
        outras estão isso onde tão qual quais quem quanto quantos você vocês nós lhe às aos num numa nesta neste
        esse essa este foram porque ter pelas dois duas todos todas tudo podem deve devem mesma mesmo fazer dia dias
        ano anos pessoas através""",
    "ca": """de la i el que a en d els l les un per una es del amb no al s va com més ha són és seu seva han però
        dels aquest aquesta també ser o entre als sobre seus seves fins molt quan dos on hi pel pels ho ja li perquè
        si tot altres així després abans sense cada estat anys ni qui què quin quina quins quines com quant tant
        aquests aquestes des durant segons encara només mateix van té tenen havia era ens us meva tots totes poden
        dia dies""",
    "gl": """de a e que o da do en os se no as para dos unha non por un é das como ou na con máis á súa ao ó polo
        entre nos seu esta ser pola tamén nas este co caso así xa coa pode sen pero mesmo ás aínda dunha nun todo ós
        cada ten aos lo está neste só lugar dentro súas teñen estas moi cunha ata quen onde cando cal foi hai todos
        todas poden""",
    "nl": """het van in een en op is voor met dat te zijn niet de die aan hij was bij maar door over uit om worden
        er heeft als of ze naar ook na wordt dan tot meer ik hebben tegen werd wel dit hun had zich kan geen al zo
        nog hoe onder moet twee wat kunnen we nu zal deze zij zou wil hem alle je moeten volgens haar waar eens
        zoals binnen toen mijn toch eigen gaan wie welke waarom wanneer hoeveel jij u uw ons onze tussen tijdens
        iedereen elke alles""",
    "sv": """i och att av som en för det den på till är med de ett har han var om inte från under men vid hade sig
        så skulle efter hans kommer eller sin hon mer detta ha kan två över mellan andra jag genom än när deras där
        ut upp nya här vara många dessa denna också mot hennes fram dess sedan alla bara utan finns nu honom vi
        varje fortfarande få vad vem vilken vilket vilka hur varför ska eftersom något några er ni mig dig oss""",
    "da": """i og at det er en til på af de har for der den med ikke som om et var men jeg så han fra vi kan efter
        skal havde sig man hvor blev være også nu over ved ud hun to kunne vil få mange eller have fik været helt
        noget deres andre op ind samme meget godt mere nogle skulle end du min uden os hans alle fordi når sin flere
        hvad sidste ingen jo under ham aldrig dem ville hvis får både denne hendes hvem hvilken hvilket hvordan
        hvorfor blevet mellem måtte""",
    "nb": """i og er det på som en å til for av at har med ikke de om jeg et han den vi var men vil kan seg fra også
        så skal hun være ble etter dette da du eller må ut blir mer alle ved nå hadde bli når opp ha to selv mot
        mange over før flere bare enn skulle vært denne der noen noe andre får gjennom meg sin hans hva inn blitt
        mellom ingen både dem hvor hvordan mye jo hvilken hvilket hvorfor hvem kun uten hennes kunne deres""",
    "fi": """ja on että oli hän joka sen ei hänen jälkeen kun se vuonna mutta sekä kuin ovat tämä tai kanssa he ole
        myös ollut jotka olivat aikana vuoden enemmän mukaan heidän tällä niin jossa tulee voi sitä noin välillä
        ennen eivät vain yhä kuten kaksi kaikki kuitenkin jos siitä vastaan mennessä lisäksi vaikka yksi tämän monet
        nyt siellä jota pitää sitten olisi hänet pois usein aina ilman jonka tähän mitä eli nämä koska tuli sillä ne
        eivät olla osa mikä miten missä milloin kuka ketkä kuinka minkä miksi mihin mistä jokainen saa voivat""",
    "et": """ja on et ei ka kui ta oli aga see mis ning siis oma ma nii või seda pole kes välja nagu selle kuid üle
        võib juba mida ole tema nende veel ära kas nüüd tuleb üks mitte midagi sest oleks vaid kõik väga palju kus
        küll teha pärast ega olla nad olnud mul minu olid eest saab need ise rohkem vastu meie neid vahel näiteks
        kaks siiski kuidas seal läbi samuti mille ainult sellest kuigi siin iga""",
    "hu": """a az és hogy is nem s egy szerint de még már csak azt meg ki pedig volt sem kell ha után két mint így
        ez aki között van el be több miatt egyik azonban olyan úgy arra vagy illetve ami ezt hiszen hanem által
        alatt ezért most lehet annak minden amely akkor korábban amelynek azért közül amikor e szemben ugyanis volna
        óta egyes ezek ahol való valamint milyen mely melyik hány mikor hol miért mi kik hogyan nincs lesz fel ő ők""",
    "tr": """ve bir bu da de için daha ile olarak ancak çok olan gibi en ya sonra kadar sahip iki ilgili tarafından
        birlikte her karşı birçok olduğunu şekilde arasında kendi değil oldu göre bazı aynı önce diğer ne yaklaşık
        üzere veya kez var tüm yapılan ise başka çeşitli olduğu zaman ama hangi nasıl neden kim kaç nerede mı mi mu
        mü hem ki ben sen biz siz onlar o şey bunun böyle vardır edilen eden""",
    "ro": """de în și a la se să cu o din care un pe mai nu pentru este că sau au ca ce al s fost prin i fi sunt
        după când dacă lui ar e unui trebuie el era ale cel unei într toate dar avea până fără am ei își lor pot
        astfel între cum fie dintre asemenea acest ne va către decât iar asupra nici îi unor privind chiar această
        sub aceste numai cele îl unde aceasta cine cât câte câți ş şi in cea celor acestea""",
    "id": """yang dan di ini untuk itu pada dari dengan dalam tahun tidak ia adalah akan ke sebagai bahwa oleh
        mereka telah banyak lebih sebuah selama tentang ada setelah bisa juga tapi satu namun baru mulai saat atau
        seperti sangat para antara memiliki menjadi karena hari hingga saya beberapa dua tersebut sendiri sama dapat
        dia seorang sudah baik sekitar sebagian lain digunakan tanpa apa secara mana hal terhadap berada merupakan
        hanya harus jika bagi kami kita siapa bagaimana kapan berapa mengapa dimana""",
    "eu": """eta da zuen ez du izan zen egin ere dira baina bat dute ziren zuten dela izango behar beste ditu oso
        den esan duen zituen zion dut dugu edo egun batean orain duela artean horretan gero hau zer dituzte asko
        bezala aukera batzuk honetan aldiz gure gabe naiz horiek guztiak hainbat arte aurretik direla egon daude
        diren baten arteko zein nor non noiz nola zergatik zenbat hori hauek""",
    "ga": """an a agus ar na ag go i le sé bhí is é sa seo sin tá de leis ach ó nó mar faoi do raibh atá ní nach ann
        san ná féin gur aon nuair chun bheith ba sí iad bhfuil eile mé air chomh gach anois fáil amach ansin cé níos
        siad acu dhá dtí gan thar orthu liom sna den cén cad conas""",
    "lt": """ir bet kad ne buvo yra kaip su iš tai į apie tik dar jis be mūsų nuo nėra nors taip jei būtų jos savo
        dėl ji jų nes jie už arba po kas kuris kurį kurių iki jau prie per gali šiandien tačiau bei pat visi metų
        kiek kodėl kur kada kokia koks kurie būti turi šis ši šių""",
    "lv": """un ir ar ka par no kā uz arī bet bija kas vai es ja tā lai nav to jau tikai tas ko viņa viņš pēc kad
        var tad vēl ļoti pie līdz tiek mēs ne viņu savu gan pa šo kur tik tu būs būtu tāpēc taču tās viņi kurā
        vairāk vairs kuru kaut tomēr dēļ nebija pat tika kāpēc cik kurš kura""",
    "pl": """w i się na z do jest nie że jak po a to przez o od ale jego również tym jako dla za ze kiedy był
        podczas są jej które został który może lat oraz tylko będzie czy aby już około mogą jednak ten co pod bardzo
        między być więcej ich niż raz ją tak tam lub takie przed sobie którzy było można tego jeśli która została we
        ma wiele go były ile gdzie dlaczego jaki jaka jakie kto przy tych tej bez nad""",
    "cs": """a v se na je že z s ve jako to pro do k byl by za o který po tak bylo od byla která které než jeho ale
        aby jak byly i nebo si mezi jsou ze jejich toho co má až když také u let její být což tím své už jen není
        však avšak tento této tohoto jsem podle pokud před během kdy další ještě proti při lze měl kteří jaký jaká
        jaké kolik kde proč kdo nad bez pod byli těchto""",
    "sk": """a sa na v som že s do to si z mi ako je aj keď o jej čo bude už za pre aby ma ja k po ale bol ich pri
        by ho sme len tak vo so ani ktorý bola pred bolo ktoré nie až od však ešte ten tom jeho alebo boli či tam
        kde potom nič niečo medzi sú kým môj nás má ktorá teraz preto mala pod viac kto koľko prečo aký aká aké
        tieto týchto""",
    "sl": """je in v se na ki da za so pa tudi s z ne bi po kot iz še ali lahko ni tako do od če pri že o ko jih med
        bil bo tem bila kar le več vse smo nekaj zato bilo pred si sta ob naj samo ta kaj sem zaradi niso zelo bili
        ker predvsem saj tega ter čeprav jim kako vendar zdaj nas te brez pod oziroma kje kdaj kdo koliko""",
    "hr": """je i u na se za su da a od s kako će koji ne bi iz što kao o to koje biti do nakon ali ili koja nije
        također samo prema bilo više bih jedan sve kada svoje dok zbog bio tako ima prije još pa već nego jer
        međutim može uz toga mu bez sada iako uključujući između koju ovog tko gdje kolika koliko tijekom godine""",
    "sr": """je u i da se za na su od sa će a koji ne bi kao on iz to što koje o biti bih do takođe nije oko ili ako
        posle samo međutim kada jedan sada bio svoje prema trebalo ali koja više ove kako zbog pre još mogu tokom
        protiv između dve deo gde ко где и у је да се за на су од са ће који не би као из то што које или ако после
        само међутим кад када један били био своје према али која више како због још могу није ово ове овај његов
        њихов""",
    "ru": """в и на с что по не к как из его он но это для был от а за о до также то во после была которые они было
        когда были ее она их я который чтобы более однако же является больше между чем все у еще может под если или
        бы того уже мы такие там со себя очень несколько этого без тем так этот которое будет свою всего своей быть
        некоторые сколько кто где почему какой какая какие каким чём её ещё при об только эти этой""",
    "uk": """на і в у з що не до та за а про це як й для його він від із але коли так цього чи або по є її ще під то
        який ж вже які тільки їх також був того було вона може була вони були ми має якщо всі об буде щоб щодо те б
        можна цей зі років більше тому навіть де інших хто лише через бо них дуже разом між бути себе тоді йому далі
        скільки чому яка яке яким""",
    "bg": """на и в се да за е от с не по ще си са че това му като но до той към които го бе всички те най след през
        ни още има може при ли бъде много трябва защото тя което вчера ако ги аз ми когато във тази този няма ти
        която който според беше бяха без тези него а със сега само им една би един или срещу докато така какво бил
        съм под обаче върху колко къде кой кога защо""",
    "ar": """في من على إلى أن التي عن مع هذا هذه الذي كان ما لا هو هي أو كما بعد قبل بين كل ذلك قد لم كانت عند حيث
        منذ خلال غير أي لكن ثم إن و تم كم متى أين ماذا لماذا كيف هل وقد ولا وفي ومن إذا عام حتى أكثر بها به له لها""",
    "fa": """و در به از که این را می است با آن ها برای کرد شده شد بر یک ای خود شود تا بود کند دارد وی هم او باید
        قرار اند کنند کرده مورد اما نیز سه گذشته اگر پس میان دیگر بین پیش نظر نمی داشت نیست دارند باشد هر همه بوده
        هزار یا چه چند کدام کجا چرا های""",
    "ur": """کے میں مےں کی نے ہے سے کو کا اور کہ پر اس کیا کر بھی لئے کرنے ہوئے ان ہیں یہ نہیں ہو گیا دیا کرتے انہوں
        وہ جا تھا بعد جو گئی رہی رہا گئے اپنے دی والے خلاف تک ہی لیکن بتایا کوئی ساتھ طرح جس ہونے تھے تمام اپنی کریں
        علاوہ کسی تو تھی""",
    "hi": """के में की है और से को का ने पर कि यह इस एक भी हैं नहीं कर था हो गया लिए जो वह तो थे साथ उनके अपने थी ही
        तक या किया इसके रहे रहा बाद द्वारा कहा जा लिये कुछ हुए करने दिया जब हुआ होता कौन क्या कब कहाँ कितने कितनी
        किस क्यों""",
    "ne": """को मा छ र का गर्न पनि हो लागि ले यो छन् भएको गरेको बाट भने गरी तथा थियो एक हुन् हुने गर्ने सबै उनी त्यो
        यस कि लाई हरू हरु नै अनि तर भन्ने भएका जुन कसरी किन के""",
    "mr": """आहे आणि या व ही हे तर असे आहेत होते होता मध्ये ते नाही केली केला करण्यात त्या त्यांनी यांनी मात्र तो हा
        ती काय कोण कधी कुठे किती का जे असून येथे झाली झाले""",
    "vi": """và của là có trong được các cho không với một người những đã này từ khi để ở năm vào đến cũng như về ra
        sau nhiều trên tại bị hơn hay theo đó thì mà nhưng bởi vì làm rất do nào gì ai đâu bao nhiêu sự việc""",
}

# Letters and signs that only a few languages use.
_LETTERS = {
    "de": "ßäöü", "fr": "çœêèàâùîïëûô", "es": "ñ¿¡áíóúé", "it": "èàòùì", "pt": "ãõçêâàáíóúé", "ca": "çèòàïŀ·íóúé",
    "gl": "ñáíóúé", "nl": "ëï", "sv": "åäö", "da": "åøæ", "nb": "åøæ", "fi": "äö", "et": "õäöü", "hu": "őűáéíóúöü",
    "tr": "ğışçöü", "ro": "ășțşţîâ", "eu": "ñ", "ga": "áéíóú", "lt": "ąęėįųūčšž", "lv": "āēīūļņķģčšž",
    "pl": "łąęćśźżńó", "cs": "ěřůčšžýáíéú", "sk": "ľĺŕôäčšžýáíéú", "sl": "čšž", "hr": "đćčšž", "sr": "đćčšžјљњћђџ",
    "vi": "ăâđêôơưạếộấảệ", "uk": "іїєґ", "ru": "ыэёъ", "bg": "ъ", "ar": "ةيكىأإ", "fa": "پچژگیک", "ur": "پچژگیکٹڈڑںےہ",
    "mr": "ळ",
}  # fmt: skip

# Unicode blocks: the last character of each, and its language, or its script if several languages share the script.
_BLOCKS = (
    (0x024F, "latin"), (0x036F, ""), (0x03FF, "el"), (0x052F, "cyrillic"), (0x058F, "hy"), (0x05FF, "he"),
    (0x077F, "arabic"), (0x08FF, ""), (0x097F, "devanagari"), (0x09FF, "bn"), (0x0A7F, "pa"), (0x0AFF, "gu"),
    (0x0B7F, "or"), (0x0BFF, "ta"), (0x0C7F, "te"), (0x0CFF, "kn"), (0x0D7F, "ml"), (0x0DFF, "si"), (0x0E7F, "th"),
    (0x0EFF, "lo"), (0x0FFF, "bo"), (0x109F, "my"), (0x10FF, "ka"), (0x11FF, "ko"), (0x139F, "am"), (0x177F, ""),
    (0x17FF, "km"), (0x1DFF, ""), (0x1EFF, "latin"), (0x1FFF, "el"), (0x303F, ""), (0x30FF, "ja"), (0x312F, ""),
    (0x318F, "ko"), (0x33FF, ""), (0x9FFF, "zh"), (0xABFF, ""), (0xD7AF, "ko"), (0xF8FF, ""), (0xFAFF, "zh"),
    (0xFDFF, "arabic"), (0xFE6F, ""), (0xFEFF, "arabic"), (0xFF65, ""), (0xFF9F, "ja"),
    (0x1FFFF, ""), (0x10FFFF, "zh"),
)  # fmt: skip

_WORD = re.compile(r"[^\s\d_!-/:-@\[-`{-~\u0080-\u00bf\u2010-\u205e\u0964\u0965\u060c\u061b\u061f\u3000-\u303f]+")
_LATIN = re.compile(r"[\x00-\u024f\u1e00-\u1eff\u2000-\u206f]+")
_SHARED_SCRIPTS = {
    "cyrillic": frozenset({"ru", "uk", "bg", "sr"}),
    "arabic": frozenset({"ar", "fa", "ur"}),
    "devanagari": frozenset({"hi", "ne", "mr"}),
}
_SHARED_SCRIPTS["latin"] = frozenset(_FUNCTION_WORDS).difference(*_SHARED_SCRIPTS.values()) | {"sr"}
_BLOCK_ENDS = [end for end, _ in _BLOCKS]
_KNOWN = frozenset(_FUNCTION_WORDS) | {label for _, label in _BLOCKS if len(label) == 2}


def detect_language(text: str) -> str | None:
    """Return the language code of a text; None if the beginning of the text is not sufficient to detect it."""
    return _decide(_evidence(text[:_READ]))


def item_language(declared: str | None, title: str, text: str) -> str | None:
    """Return the language of an item: the declared one, or the detected one if the declaration is plainly wrong."""
    evidence = _evidence(text[:_READ])
    if declared is None:
        return _decide(evidence) or detect_language(f"{title}\n{text}")
    primary = _primary(declared)
    detected = _decide(evidence)
    if detected is None or primary not in _KNOWN or _are_siblings(primary, detected):
        return declared
    return detected if _is_certain(evidence, detected, primary) else declared


def passage_language(text: str, of_item: str | None) -> str | None:
    """Return the language of a passage if it clearly differs from the item's language; else None."""
    evidence = _evidence(text[:_READ])
    detected = _decide(evidence)
    primary = _primary(of_item or _DEFAULT)
    if detected is None or _are_siblings(primary, detected):
        return None
    return detected if _is_certain(evidence, detected, primary) else None


def _is_certain(evidence: Mapping[str, float], detected: str, other: str) -> bool:
    return evidence[detected] >= max(_CERTAIN, _CERTAIN_RATIO * evidence.get(other, 0.0))


def _primary(code: str) -> str:
    return re.split("[-_]", code, maxsplit=1)[0].lower()


def _are_siblings(code: str, other: str) -> bool:
    return code == other or any(code in siblings and other in siblings for siblings in _SIBLINGS)


def _decide(evidence: Mapping[str, float]) -> str | None:
    ranked = sorted(evidence, key=evidence.__getitem__, reverse=True)
    if not ranked or evidence[ranked[0]] < _LEAST:
        return None
    second = max((evidence[code] for code in ranked[1:] if not _are_siblings(ranked[0], code)), default=0.0)
    return ranked[0] if evidence[ranked[0]] >= max(second + _LEAD, second * _RATIO) else None


# An item with a single passage has the same text as the passage.
@lru_cache(maxsize=64)
def _evidence(text: str) -> Mapping[str, float]:
    """Return the weight of the evidence for each language."""
    text = text.lower()
    script = _script(text)
    if script not in _SHARED_SCRIPTS:
        return {script: _CERTAIN} if script else {}
    evidence = dict.fromkeys(sorted(_SHARED_SCRIPTS[script]), 0.0)
    for weights, features in ((_word_weights(), set(_WORD.findall(text))), (_letter_weights(), set(text))):
        for feature in features & weights.keys():
            for code, weight in weights[feature]:
                if code in evidence:
                    evidence[code] += weight
    return evidence


def _script(text: str) -> str:
    """Return the script of a text; for a script of only one language, that language; "" if the text has no letters."""
    if text.isascii():
        return "latin"
    others = _LATIN.sub("", text)
    # A page in Japanese contains product names in Latin letters, a page in English contains a few foreign names.
    if len(others) < len(text) * 0.15:
        return "latin"
    counts = Counter(_BLOCKS[bisect_left(_BLOCK_ENDS, ord(letter))][1] for letter in others[:200])
    del counts[""]
    if counts["ja"] * 10 >= counts["zh"]:
        # Japanese mixes its own letters with Chinese characters.
        counts["ja"] += counts.pop("zh", 0) if counts["ja"] else 0
    return counts.most_common(1)[0][0] if counts.total() else ""


@cache
def _word_weights() -> dict[str, list[tuple[str, float]]]:
    languages = defaultdict(list)
    for code, words in _FUNCTION_WORDS.items():
        for word in set(words.split()):
            languages[word].append(code)
    return {
        word: [(code, (_SHORT_WORD_WEIGHT if len(word) == 1 else 1.0) / len(codes)) for code in codes]
        for word, codes in languages.items()
    }


@cache
def _letter_weights() -> dict[str, list[tuple[str, float]]]:
    languages = defaultdict(list)
    for code, letters in _LETTERS.items():
        for letter in letters:
            languages[letter].append(code)
    return {letter: [(code, _LETTER_WEIGHT / len(codes)) for code in codes] for letter, codes in languages.items()}
