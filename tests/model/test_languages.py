"""The language of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.model.languages import detect_language, item_language, passage_language

SENTENCES = {
    "en": "The city publishes the quality of its air every day, and the data can be used by everyone.",
    "de": "Die Stadt veröffentlicht jeden Tag die Qualität ihrer Luft, und die Daten können von allen genutzt werden.",
    "fr": "La ville publie chaque jour la qualité de son air, et les données peuvent être utilisées par tous.",
    "es": "La ciudad publica cada día la calidad de su aire, y los datos pueden ser utilizados por todos.",
    "it": "La città pubblica ogni giorno la qualità della sua aria, e i dati possono essere usati da tutti.",
    "pt": "A cidade publica todos os dias a qualidade do seu ar, e os dados podem ser usados por todas as pessoas.",
    "ca": "La ciutat publica cada dia la qualitat del seu aire, i les dades poden ser utilitzades per tothom.",
    "nl": "De stad publiceert elke dag de kwaliteit van de lucht, en de gegevens kunnen door iedereen worden gebruikt.",
    "sv": "Staden publicerar varje dag kvaliteten på sin luft, och uppgifterna kan användas av alla.",
    "da": "Byen offentliggør hver dag kvaliteten af sin luft, og dataene kan bruges af alle, også efter betaling.",
    "nb": "Byen publiserer hver dag kvaliteten på luften sin, og dataene kan brukes av alle uten betaling nå.",
    "fi": "Kaupunki julkaisee joka päivä ilmansa laadun, ja tiedot ovat kaikkien käytettävissä, mutta myös muita on.",
    "hu": "A város minden nap közzéteszi levegőjének minőségét, és az adatokat mindenki használhatja.",
    "ro": "Orașul publică în fiecare zi calitatea aerului său, iar datele pot fi folosite de către toți.",
    "tr": "Şehir her gün havasının kalitesini yayınlar ve veriler herkes tarafından kullanılabilir.",
    "id": "Kota ini menerbitkan kualitas udaranya setiap hari, dan data tersebut dapat digunakan oleh semua orang.",
    "pl": "Miasto codziennie publikuje jakość swojego powietrza, a dane mogą być wykorzystywane przez wszystkich.",
    "cs": "Město každý den zveřejňuje kvalitu svého ovzduší a údaje může používat kdokoli, kdo je potřebuje.",
    "ru": "Город каждый день публикует качество своего воздуха, и эти данные могут использовать все.",
    "uk": "Місто щодня публікує якість свого повітря, і ці дані може використовувати будь-хто.",
    "bg": "Градът публикува всеки ден качеството на въздуха си и данните могат да се използват от всички.",
    "sr": "Град сваког дана објављује квалитет свог ваздуха, а податке може да користи свако ко их треба.",
    "el": "Η πόλη δημοσιεύει κάθε μέρα την ποιότητα του αέρα της.",
    "ar": "تنشر المدينة كل يوم جودة هوائها، ويمكن للجميع استخدام هذه البيانات.",
    "fa": "شهر هر روز کیفیت هوای خود را منتشر می کند و همه می توانند از این داده ها استفاده کنند.",
    "he": "העיר מפרסמת מדי יום את איכות האוויר שלה.",
    "hi": "शहर हर दिन अपनी हवा की गुणवत्ता प्रकाशित करता है और यह डेटा सभी के लिए है।",
    "th": "เมืองเผยแพร่คุณภาพอากาศทุกวัน",
    "zh": "该市每天发布空气质量，所有人都可以使用这些数据。",
    "ja": "市は毎日大気の質を公表し、データは誰でも利用できる。",
    "ko": "시는 매일 대기 질을 공개하며 누구나 데이터를 사용할 수 있다.",
    "vi": "Thành phố công bố chất lượng không khí của mình mỗi ngày và mọi người có thể sử dụng dữ liệu này.",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_a_sentence_is_recognised_in_each_language(code: str) -> None:
    assert detect_language(SENTENCES[code]) == code


@pytest.mark.parametrize(
    "text", ["", "   \n", "2024-11-03; 17,4", "x = f(y) + 1", "NOx PM2.5", "https://a.example/b", "🙂🙂"]
)
def test_a_text_without_words_of_a_language_stays_undecided(text: str) -> None:
    assert detect_language(text) is None


def test_foreign_names_do_not_decide() -> None:
    assert detect_language(SENTENCES["en"] + " See 北京 and Αθήνα.") == "en"
    assert detect_language("PostgreSQL 17 は JSON_TABLE をサポートし、UUID v7 も使えるようになった。") == "ja"


def test_only_the_first_words_count_so_that_long_texts_cost_no_more() -> None:
    assert detect_language(SENTENCES["de"] * 20 + SENTENCES["en"] * 1_000) == "de"


@given(st.text(max_size=200))
def test_any_text_has_a_code_or_none(text: str) -> None:
    code = detect_language(text)
    assert code is None or (len(code) == 2 and code.isascii())


class TestItem:
    """A declaration counts unless it is plainly wrong."""

    def test_an_undeclared_language_is_detected(self) -> None:
        assert item_language(None, "Luft", SENTENCES["de"]) == "de"

    def test_the_title_helps_where_the_text_does_not_show_a_language(self) -> None:
        assert item_language(None, SENTENCES["pt"], "PM10; 17,4") == "pt"

    def test_a_declaration_is_kept_as_it_is_written(self) -> None:
        assert item_language("pt_BR", "Ar", SENTENCES["pt"]) == "pt_BR"

    def test_a_plainly_wrong_declaration_is_corrected(self) -> None:
        assert item_language("en", "Ar", SENTENCES["pt"]) == "pt"
        assert item_language("en-US", "大気", SENTENCES["ja"]) == "ja"

    def test_a_declaration_stays_where_the_text_shows_little(self) -> None:
        assert item_language("de", "Air", "Air quality of the city") == "de"

    @pytest.mark.parametrize(
        ("declared", "text"), [("nn", "nb"), ("no", "da"), ("bs", "sr"), ("la", "it"), ("mk", "bg")]
    )
    def test_a_declaration_of_a_similar_or_unknown_language_stays(self, declared: str, text: str) -> None:
        assert item_language(declared, "", SENTENCES[text]) == declared


class TestPassage:
    """A passage has a language of its own only if it is another one than its item's."""

    def test_a_passage_in_the_language_of_its_item_has_none(self) -> None:
        assert passage_language(SENTENCES["de"], "de-AT") is None

    def test_a_passage_in_another_language_has_its_own(self) -> None:
        assert passage_language(SENTENCES["en"], "de") == "en"
        assert passage_language(SENTENCES["de"], None) == "de"

    def test_a_passage_of_a_similar_language_has_none(self) -> None:
        assert passage_language(SENTENCES["da"], "nb") is None

    def test_an_english_passage_of_an_item_without_language_has_none(self) -> None:
        assert passage_language(SENTENCES["en"], None) is None

    def test_a_short_passage_has_none(self) -> None:
        assert passage_language("the", "de") is None
