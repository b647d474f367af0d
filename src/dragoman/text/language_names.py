"""The English names of languages, scripts and regions, and other codes of the same languages.

Each entry of a table is a code and a name. The languages are those of ISO 639-1, and some without a
code of two letters. After a slash follow the code of ISO 639-3, then other codes of the language:
the bibliographic one of ISO 639-2, and withdrawn ones.
"""

from __future__ import annotations

_LANGUAGES = """
aa/aar Afar; ab/abk Abkhaz; ae/ave Avestan; af/afr Afrikaans; ak/aka Akan; am/amh Amharic; an/arg
Aragonese; ar/ara Arabic; as/asm Assamese; av/ava Avar; ay/aym Aymara; az/aze Azerbaijani; ba/bak
Bashkir; be/bel Belarusian; bg/bul Bulgarian; bh/bih Bihari; bi/bis Bislama; bm/bam Bambara; bn/ben
Bengali; bo/bod/tib Tibetan; br/bre Breton; bs/bos Bosnian; ca/cat Catalan; ce/che Chechen; ch/cha
Chamorro; co/cos Corsican; cr/cre Cree; cs/ces/cze Czech; cu/chu Church Slavonic; cv/chv Chuvash;
cy/cym/wel Welsh; da/dan Danish; de/deu/ger German; dv/div Dhivehi; dz/dzo Dzongkha; ee/ewe Ewe;
el/ell/gre Greek; en/eng English; eo/epo Esperanto; es/spa Spanish; et/est Estonian; eu/eus/baq
Basque; fa/fas/per Persian; ff/ful Fula; fi/fin Finnish; fj/fij Fijian; fo/fao Faroese; fr/fra/fre
French; fy/fry Western Frisian; ga/gle Irish; gd/gla Scottish Gaelic; gl/glg Galician; gn/grn
Guarani; gu/guj Gujarati; gv/glv Manx; ha/hau Hausa; he/heb/iw Hebrew; hi/hin Hindi; ho/hmo Hiri
Motu; hr/hrv Croatian; ht/hat Haitian Creole; hu/hun Hungarian; hy/hye/arm Armenian; hz/her Herero;
ia/ina Interlingua; id/ind/in Indonesian; ie/ile Interlingue; ig/ibo Igbo; ii/iii Sichuan Yi; ik/ipk
Inupiaq; io/ido Ido; is/isl/ice Icelandic; it/ita Italian; iu/iku Inuktitut; ja/jpn Japanese;
jv/jav/jw Javanese; ka/kat/geo Georgian; kg/kon Kongo; ki/kik Kikuyu; kj/kua Kwanyama; kk/kaz
Kazakh; kl/kal Greenlandic; km/khm Khmer; kn/kan Kannada; ko/kor Korean; kr/kau Kanuri; ks/kas
Kashmiri; ku/kur Kurdish; kv/kom Komi; kw/cor Cornish; ky/kir Kyrgyz; la/lat Latin; lb/ltz
Luxembourgish; lg/lug Ganda; li/lim Limburgish; ln/lin Lingala; lo/lao Lao; lt/lit Lithuanian;
lu/lub Luba-Katanga; lv/lav Latvian; mg/mlg Malagasy; mh/mah Marshallese; mi/mri/mao Maori;
mk/mkd/mac Macedonian; ml/mal Malayalam; mn/mon Mongolian; mr/mar Marathi; ms/msa/may Malay; mt/mlt
Maltese; my/mya/bur Burmese; na/nau Nauru; nb/nob Norwegian Bokmål; nd/nde North Ndebele; ne/nep
Nepali; ng/ndo Ndonga; nl/nld/dut Dutch; nn/nno Norwegian Nynorsk; no/nor Norwegian; nr/nbl South
Ndebele; nv/nav Navajo; ny/nya Nyanja; oc/oci Occitan; oj/oji Ojibwe; om/orm Oromo; or/ori Odia;
os/oss Ossetian; pa/pan Punjabi; pi/pli Pali; pl/pol Polish; ps/pus Pashto; pt/por Portuguese;
qu/que Quechua; rm/roh Romansh; rn/run Rundi; ro/ron/rum/mo Romanian; ru/rus Russian; rw/kin
Kinyarwanda; sa/san Sanskrit; sc/srd Sardinian; sd/snd Sindhi; se/sme Northern Sami; sg/sag Sango;
si/sin Sinhala; sk/slk/slo Slovak; sl/slv Slovenian; sm/smo Samoan; sn/sna Shona; so/som Somali;
sq/sqi/alb Albanian; sr/srp Serbian; ss/ssw Swati; st/sot Southern Sotho; su/sun Sundanese; sv/swe
Swedish; sw/swa Swahili; ta/tam Tamil; te/tel Telugu; tg/tgk Tajik; th/tha Thai; ti/tir Tigrinya;
tk/tuk Turkmen; tl/tgl Tagalog; tn/tsn Tswana; to/ton Tongan; tr/tur Turkish; ts/tso Tsonga; tt/tat
Tatar; tw/twi Twi; ty/tah Tahitian; ug/uig Uyghur; uk/ukr Ukrainian; ur/urd Urdu; uz/uzb Uzbek;
ve/ven Venda; vi/vie Vietnamese; vo/vol Volapük; wa/wln Walloon; wo/wol Wolof; xh/xho Xhosa;
yi/yid/ji Yiddish; yo/yor Yoruba; za/zha Zhuang; zh/zho/chi/cmn Chinese; zu/zul Zulu; als Swiss
German; arz Egyptian Arabic; ast Asturian; bar Bavarian; bho Bhojpuri; ceb Cebuano; ckb Central
Kurdish; dsb Lower Sorbian; fil Filipino; fur Friulian; gsw Swiss German; haw Hawaiian; hmn Hmong;
hsb Upper Sorbian; ilo Iloko; kab Kabyle; kmr Northern Kurdish; lmo Lombard; lzh Literary Chinese;
mai Maithili; mni Manipuri; nds Low German; nso Northern Sotho; pap Papiamento; prs Dari; rue Rusyn;
sah Yakut; sat Santali; scn Sicilian; sco Scots; sh Serbo-Croatian; szl Silesian; tet Tetum; tok
Toki Pona; tpi Tok Pisin; vec Venetian; war Waray; wuu Wu Chinese; yue Cantonese
"""

_SCRIPTS = """
arab Arabic; cyrl Cyrillic; deva Devanagari; hans Simplified; hant Traditional; latn Latin;
mong Mongolian; tfng Tifinagh
"""

_REGIONS = """
419 Latin America; ae United Arab Emirates; ar Argentina; at Austria; au Australia; ba Bosnia and
Herzegovina; be Belgium; bd Bangladesh; br Brazil; ca Canada; ch Switzerland; cl Chile; cn China;
co Colombia; cy Cyprus; de Germany; dz Algeria; ec Ecuador; eg Egypt; es Spain; fr France;
gb United Kingdom; hk Hong Kong; ie Ireland; in India; iq Iraq; ir Iran; it Italy; jo Jordan;
lb Lebanon; lu Luxembourg; ma Morocco; md Moldova; me Montenegro; mo Macao; mx Mexico; my Malaysia;
nl Netherlands; nz New Zealand; pe Peru; ph Philippines; pk Pakistan; pr Puerto Rico; pt Portugal;
rs Serbia; sa Saudi Arabia; sg Singapore; tn Tunisia; tw Taiwan; us United States; uy Uruguay;
ve Venezuela; za South Africa
"""


def _entries(table: str) -> list[list[str]]:
    return [entry.split(maxsplit=1) for entry in " ".join(table.split()).split("; ")]


LANGUAGES = {codes.partition("/")[0]: name for codes, name in _entries(_LANGUAGES)}
ALIASES = {
    alias: codes.split("/")[0]
    for codes, _ in _entries(_LANGUAGES)
    for alias in codes.split("/")[1:]
}
"""The codes of `LANGUAGES` for other codes of the same languages."""
SCRIPTS = {code: name for code, name in _entries(_SCRIPTS)}
REGIONS = {code: name for code, name in _entries(_REGIONS)}
