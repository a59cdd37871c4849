"""Short templates for tools/goldens/chat_template_golden.py, and the variables they see."""

VARIABLES = {
    "n": 7, "zero": 0, "negative": -3, "real": 2.5, "large": 18446744073709551615, "yes": True, "no": False, "nothing": None,
    "word": "Hello", "text": "  a b\tc \n", "unicode": "Straße 日本 é👍", "quotes": "it's \"so\"", "empty": "",
    "list": [3, 1, 2], "words": ["beta", "Alpha", "gamma", "alpha"], "none_list": [],
    "map": {"b": 2, "a": 1, "C": [1, {"x": None}]}, "items": {"items": "own", "get": 5},
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25, "tags": []}, {"name": "Cid", "age": 30}],
    "tree": [{"n": "a", "kids": [{"n": "b", "kids": [{"n": "c", "kids": []}]}, {"n": "d", "kids": []}]}],
    "nested": {"a": {"b": ["x", "y", {"c": 1}]}}, "lines": "one\n\ntwo\nthree",
}

EXPRESSIONS = """
1 + 2 * 3 - 4~~1 - 2 - 3~~2 ** 3 ** 2~~-2 ** 2~~7 // 2~~-7 // 2~~7 % 3~~-7 % 3~~7 / 2~~6 / 2~~7.5 // 2~~-7.5 % 2~~2 ** -1
10 ** 20
1e3~~1.5e-7~~123456789012345678.0~~1e16~~1e15~~0.1 + 0.2~~1_000~~0x1F~~0b101~~0o17~~3.0~~1.0e+2~~100000000000000000000.0
1/3
"a" "b" 'c'~~"a" ~ 1 ~ none ~ true ~ 2.0~~"ab" * 3~~3 * "ab"~~[1] * 3~~[1] + [2, 3]~~(1, 2) + (3,)~~"%s-%d" % ("a", 3)
"%.2f|%5d|%-5s|" % (1.239, 42, "x")
"%x %o %5.1f%%" % (255, 8, 2.25)~~"%(a)s" % {"a": 1}~~"{} {} {{}}".format(1, "x")~~"{0}{1}{0}".format("a", "b")
"{a}-{b}".format(a=1, b=2)
1 < 2 < 3~~1 < 3 < 2~~1 == 1.0~~true == 1~~"a" < "b"~~[1, 2] < [1, 3]~~(1,) == (1,)~~[1] == (1,)~~none == none
missing == missing~~1 != "1"
2 in [1, 2]~~"l" in word~~"b" in map~~"z" not in map~~none in [none]~~2 in (1, 2)~~"x" in missing~~not 1~~not not 1
not missing
1 and 2~~0 and 2~~0 or "x"~~"" or none~~1 if yes else 2~~1 if no~~"a" if no else "b" if no else "c"
(1 if no) is undefined~~yes and not no
n~~zero~~negative~~real~~large~~yes~~nothing~~missing~~word~~list~~map~~unicode~~quotes~~text~~people
word[0]~~word[-1]~~word[10]~~word[1:3]~~word[::-1]~~word[:-1]~~word[-3:]~~word[::2]~~word[3:1]~~word[4:0:-2]~~unicode[7:9]
unicode[-1]~~word[10:]
list[0]~~list[-1]~~list[5]~~list[1:]~~list[::-1]~~list[-2:]~~list[5:]~~(1, 2, 3)[1:]~~list[:0]~~list[0:3:2]~~list[2::-1]
map.b~~map["a"]~~map.missing~~map["missing"]~~map.C[1].x~~map.C.1.x~~items.items is callable~~items["items"]~~items["get"]
nested.a.b[2]["c"]~~map.get("q")~~map.get("q", 5)
map.keys()~~map.values()~~map.items()~~map.items() | list~~map | items | list~~map | length~~{"a": 1}.a~~{1: 2}[1]
{"k": [1, 2,],}~~{}~~[]~~()~~(1,)~~(1, 2)
nothing.x is undefined~~nothing["x"] is undefined~~n.x is undefined~~list.x is undefined~~word.x is undefined
map.b.c is undefined
word|length~~list|length~~map|length~~missing|length~~none_list|length~~word|count~~unicode|length~~map|list~~word|list
missing|list
""".strip()

FILTERS = """
word|upper~~word|lower~~unicode|upper~~unicode|lower~~"hELLO wORLD"|title~~"hELLO wORLD"|capitalize~~"a-b c(d e[f"|title
""|capitalize
text|trim~~"xxaxx"|trim("x")~~n|upper~~nothing|lower~~"a"|safe ~ "<"~~"<a href='x'>&\\""|e~~"<"|escape~~5|string + "x"
["a"]|string
word|replace("l", "L")~~word|replace("l", "L", 1)~~word|replace("", "-")~~5|replace(5, 6)~~"aaa"|replace("aa", "b")
list|join~~list|join(", ")~~words|join("|")~~people|join(",", attribute="name")~~people|join(",", "age")~~word|join("-")
map|join("+")~~[1, none, true, 2.5]|join(" ")
missing|default("d")~~missing|d~~""|default("d")~~""|default("d", true)~~none|default("d")~~0|d(5, boolean=True)
missing.x|default("d")
list|first~~list|last~~none_list|first is undefined~~none_list|last is undefined~~word|first~~map|first~~map|last
word|last
list|sort~~list|sort(reverse=true)~~words|sort~~words|sort(case_sensitive=true)
people|sort(attribute="age")|map(attribute="name")|list
people|sort(attribute="age,name", reverse=true)|map(attribute="name")|list
map|dictsort~~map|dictsort(case_sensitive=true)~~{"a": 3, "b": 1}|dictsort(by="value")
{"a": 3, "b": 1}|dictsort(false, "value", true)
list|reverse|list~~word|reverse~~map|reverse|list~~list|max~~list|min~~words|max~~words|min~~none_list|max is undefined
people|max(attribute="age")~~list|sum~~people|sum("age")~~people|sum(attribute="age", start=10)~~[1.5, 2]|sum
words|unique|list~~words|unique(true)|list~~people|unique(attribute="age")|map(attribute="name")|list
[1, 1.0, true, "1"]|unique|list
people|groupby("age")|list|length~~people|groupby("age")|map("first")|list~~people|map(attribute="tags", default="-")|list
people|map(attribute="name")|map("upper")|join(",")
list|map("string")|list~~words|map("replace", "a", "_")|list~~nested.a|map("length")|list
[{"a": {"b": 1}}]|map(attribute="a.b")|list~~[[1, 2], [3, 4]]|map(attribute=1)|list~~[[1, 2]]|map(attribute="1")|list
list|select|list~~[0, 1, none, "a"]|select|list~~[0, 1, none]|reject|list~~list|select("odd")|list
list|reject("odd")|list~~list|select("greaterthan", 1)|list~~list|select(">", 1)|list
[1, "a", none]|select("string")|list
people|selectattr("tags")|map(attribute="name")|list~~people|selectattr("age", "equalto", 30)|map(attribute="name")|list
people|rejectattr("age", "eq", 30)|map(attribute="name")|list~~people|selectattr("tags", "defined")|list|length
people|rejectattr("tags")|list|length~~missing|selectattr("x")|list
"42"|int~~"4.7"|int~~4.7|int~~-4.7|int~~"x"|int~~"x"|int(5)~~"ff"|int(0, 16)~~"0x1f"|int(base=16)~~"  12 "|int
"1_000"|int~~true|int~~none|int~~"1e3"|int~~"42"|float~~"x"|float~~"x"|float(1.5)~~3|float~~"1e400"|int(7)~~"-5"|int
"+5"|int
-3|abs~~3.5|abs~~(-3.5)|abs~~negative|abs~~2.5|round~~3.5|round~~2.675|round(2)~~2.5|round(0, "ceil")
2.51|round(1, "floor")~~42|round~~1234|round(-2)~~1234.5|round(-2)~~-2.5|round
nothing|select|list~~zero|map("upper")|list~~nothing|map(attribute="x")|list~~no|rejectattr("x")|list
list|batch(2)|list~~list|batch(2, 0)|list~~list|slice(2)|list~~list|slice(2, 0)|list~~word|batch(2)|list
map|tojson~~people|tojson~~unicode|tojson~~unicode|tojson(ensure_ascii=true)~~map|tojson(indent=2)~~map|tojson(indent=4)
map|tojson(sort_keys=true)~~map|tojson(separators=(",", ":"))~~none|tojson~~2.0|tojson~~true|tojson~~large|tojson
(1, "a")|tojson~~"<&>'\\"\\\\/"|tojson~~text|tojson~~"\\u0001\\x7f\\u2028"|tojson~~[]|tojson(indent=2)
{}|tojson(indent=2)~~{1: 2, none: 3, true: 4, 1.5: 5}|tojson~~map|tojson(indent="--")~~[[], {}, [1, [2]]]|tojson(indent=1)
list|tojson(indent=0)
lines|indent~~lines|indent(2)~~lines|indent(2, true)~~lines|indent(2, blank=true)~~lines|indent("> ", true, true)
word|indent~~"a\\n"|indent~~""|indent
"foo bar baz qux"|truncate(9)~~"foo bar baz qux"|truncate(9, true)~~"foo bar baz qux"|truncate(11)
"foo bar baz qux"|truncate(11, false, "...", 0)~~"foo bar"|wordcount~~"a"|center(5)~~"ab"|center(5) ~ "|"
"%s %s"|format("a", 1)~~"%(x)s"|format(x=3)
word|attr("upper") is callable~~map|attr("b") is undefined~~n|default(1)|string|length~~-1|abs~~(1, 2)|list
"a,b"|replace(",", ";")|upper~~list|list is sequence~~word|upper|lower|title
""".strip()

METHODS = """
"a b c".split()~~" a  b ".split()~~"a,b,,c".split(",")~~"a,b,c".split(",", 1)~~"a,b,c".rsplit(",", 1)
"  a b c ".split(none, 1)~~" a b c ".rsplit(none, 1)~~"".split()~~"".split(",")~~"abc".split("x")
"a<>b<>c".split("<>")[-1]
"  x ".strip()~~"  x ".lstrip() ~ "|"~~"  x ".rstrip() ~ "|"~~"xyax".strip("xy")~~"\\n\\nx\\n".strip("\\n")
"abc".lstrip("ab")~~"\\u3000x\\u00a0".strip()~~"éaé".strip("é")~~"aXa".strip("")
word.upper()~~word.lower()~~"hello world it's".title()~~"hELLO".capitalize()~~word.startswith("He")
word.startswith(("x", "H"))~~word.endswith("lo")~~word.endswith("x")~~word.startswith("l", 2)~~word.endswith("el", 0, 3)
word.find("l")~~word.find("z")~~word.rfind("l")~~word.index("e")~~word.count("l")~~unicode.find("日")~~word.find("l", 3)
"aaa".count("aa")~~"abc".count("")~~word.rindex("l")
word.replace("l", "")~~word.replace("l", "L", 1)~~"-".join(["a", "b"])~~"".join(words)~~", ".join(map)
"a=b=c".partition("=")~~"a=b=c".rpartition("=")~~"abc".partition("=")~~"abc".rpartition("=")
"5".zfill(3)~~"-5".zfill(4)~~"a".ljust(3) ~ "|"~~"a".rjust(3, ".")~~"a".center(4) ~ "|"~~"ab".center(5, "*")
"prefix-x".removeprefix("prefix-")~~"x.txt".removesuffix(".txt")~~"a\\nb\\r\\nc".splitlines()~~"a\\nb\\n".splitlines(true)
"".splitlines()
"12".isdigit()~~"1a".isdigit()~~"".isdigit()~~"ab".isalpha()~~"a1".isalnum()~~" \\t".isspace()~~"AB1".isupper()
"ab1".islower()~~"1".isupper()~~"é日".isalpha()~~"a_b".isalnum()
list.index(1)~~list.count(3)~~map.copy()~~list.copy()~~(1, 2).index(2)~~dict(a=1, b=2)~~dict([("x", 1)])~~dict(map, z=1)
dict()~~range(3) | list~~range(1, 4) | list~~range(5, 0, -2) | list~~range(3)[1]~~range(0) | list~~range(3) | length
1 in range(3)
strftime_now("%Y-%m-%d")~~strftime_now("%d %b %Y")~~strftime_now("%B %d, %Y %H:%M:%S %A %j %y %%")~~strftime_now("")
namespace(a=1).a~~namespace(a=1).b is undefined~~namespace() is defined~~namespace({"q": 3}, r=4).q
"\\u00e9\\x41\\101\\t|\\\\n\\q"~~'it\\'s'~~"line\\
joined"~~"\\U0001F600"~~"a\\"b"
[1, "a", none, true, 2.5, [], {}, ()]~~["it's", 'say "x"', "both ' and \\"", "\\n\\t\\\\", "\\x00\\x7f\\u2028é日\\u00ad"]
{"a": {"b": (1,)}}~~[missing]
""".strip()

TESTS = """
n is defined~~missing is defined~~missing is undefined~~nothing is none~~missing is none~~n is not none~~word is string
n is string~~n is number~~yes is number~~real is float~~n is float~~n is integer~~yes is integer~~yes is boolean
n is boolean
yes is true~~no is false~~1 is true~~map is mapping~~list is mapping~~list is iterable~~word is iterable~~n is iterable
map is iterable~~missing is iterable~~list is sequence~~map is sequence~~word is sequence~~map.items() is sequence
n is sequence
n is odd~~n is even~~n is divisibleby 7~~n is divisibleby(2)~~n is divisibleby zero + 3~~1 is eq 1~~1 is ne 2~~1 is lt 2
1 is le 1~~2 is gt 1~~2 is ge 3~~1 is == 1~~"a" is in "abc"~~1 is in [1]~~1 is not in [2]~~none is sameas none
1 is sameas 1~~1 is sameas true
range is callable~~word is callable~~word.upper is callable~~"upper" is filter~~"nope" is filter~~"odd" is test
"ABC" is upper~~"abc" is lower~~"aB" is lower~~missing is not defined and yes~~n is defined and n is odd
not missing is defined~~(missing is defined) == false~~n is equalto 7~~word is equalto("Hello")~~n is greaterthan 3
"x" is escaped
""".strip()

MARKUP = """
"<a>"|safe + "<b>"~~"<b>" + "<a>"|safe~~"<a>"|safe ~ "<b>"~~("<a>"|safe) + ("<b>"|safe)~~"<&>'\\""|e + "<"~~"<"|e|e
"<"|e|forceescape~~"<a>"|safe|upper + "<"~~"<a>"|safe|capitalize + "<"~~" <a> "|safe|trim + "<"~~("<a>"|safe).upper() + "<"
("<a>"|safe)[0] + "<"~~("<a>"|safe)[::2] + "<"~~("<a>"|safe)[1:] + "<"~~("<a>"|safe) * 2 + "<"~~("<a><b>"|safe).split("><")[0] + "<"
("<a>"|safe).replace("a", "<") + "<"~~("<a>"|safe)|replace("a", "<") + "<"~~("-"|safe).join(["<", "<b>"|safe]) + "<"
["<", "<b>"|safe]|join("-") + "<"~~("<%s>"|safe) % "<"~~"<%s>" % ("<"|safe) + "<"~~("<{}>"|safe).format("<") + "<"
("<%s>"|safe)|format("<") + "<"~~("<a>\\n<b>"|safe)|indent(2) + "<"~~("<a>"|safe).center(7) + "<"~~("<a>"|safe)|center(7) + "<"
("<a>"|safe) is escaped~~"<" is escaped~~("<"|safe|string) is escaped~~("<"|safe) == "<"~~("<"|safe)|tojson~~["<"|safe]
("<"|safe)|list|first + "<"~~("<ab>"|safe)|first + "<"~~("<ab>"|safe)|reverse + "<"~~("a b"|safe)|title + "<"~~("ab"|safe).title() + "<"
("<a> <b> <c> <d>"|safe)|truncate(6, true, "<", 0)~~("a=b"|safe).partition("=")[0] + "<"~~("5"|safe).zfill(3) + "<"
("<"|safe)|default("x") + "<"~~map|tojson|safe + "<"~~"" + map|tojson|safe~~("<"|safe) + 5|string
""".strip()

INTEGERS = """
18446744073709551616~~-170141183460469231731~~99999999999999999999 + 1~~"99999999999999999999"|int~~"-99999999999999999999"|int
99999999999999999999|tojson~~[99999999999999999999]~~99999999999999999999|string~~"ffffffffffffffffffff"|int(base=16)
99999999999999999999 == 99999999999999999998~~99999999999999999999 // 3~~0xffffffffffffffffffff~~"1e20"|int
""".strip()

BLOCKS = [
    "{% set x %}<{% endset %}{{ x + '<a>' | safe }}", "{% macro f() %}<{% endmacro %}{{ f() + '<a>' | safe }}",
    # White space around tags.
    "a\n{% if yes %}\nb\n{% endif %}\nc\n", "a\n  {% if yes %}\n  b\n  {% endif %}\nc", "a  {% if yes %} b {% endif %} c",
    "a\n  {%- if yes -%}\n  b\n  {%- endif -%}\n c", "a\n  {{ n }}\n b", "a \n {{- n -}} \n b", "a\n  {# c #}\n b",
    "a {# c #} b", "a\n {#- c -#}\n b", "a\n  {%+ if yes %}\n  b\n  {%+ endif %}\nc", "{% if yes +%}\n b\n{% endif +%}\nc",
    "\n\n{{ n }}\n\n", "{{ n }}\n", "{{ n }}\n\n", "x\r\ny\rz\r\n", "{% if yes %}\r\nx\r\n{% endif %}\r\n",
    "  {% set a = 1 %}  {% set b = 2 %}\n  {{ a }}{{ b }}", "\t{% if yes %}\tx\t{% endif %}\t",
    "{% if yes %}{% endif %}\n\nx", "a{% if yes -%}   b   {%- endif %}c", "{% raw %}{{ x }}{% y %}{% endraw %}",
    "a\n  {% raw %}\n  {{ x }}\n  {% endraw %}\nb", "{%- raw -%}  {{ x }}  {%- endraw -%} z", "{#\n multi\n line\n#}\nx",
    "{# a #}{# b #}c", "{##}x", "{#-#} x", "{{ '}}' }}{{ \"%}\" }}", "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ '{{' }}{% set x = '{%' %}{{ x }}", "{ {a} {", "{{n}}{{-n-}}{{n}}", "a{{ '' }}\n", "\u2003{%- if yes %}x{% endif %}",
    "\u00a0\n\u2003{{- n }}",
    # if, set
    "{% if no %}a{% elif n %}b{% else %}c{% endif %}", "{% if no %}a{% elif zero %}b{% else %}c{% endif %}",
    "{% if missing %}a{% endif %}b", "{% if [] or {} or '' or 0 %}a{% else %}b{% endif %}", "{% if 1, %}t{% endif %}",
    "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}", "{% set x = 1, 2 %}{{ x }}",
    "{% set a, b = [1, 2] %}{{ b }}{{ a }}", "{% set x %}a{{ n }}b{% endset %}[{{ x }}]",
    "{% set x | upper | trim %}  a{{ n }}b {% endset %}[{{ x }}]",
    "{% set x = 1 %}{% set y %}{% set x = 2 %}{{ x }}{% endset %}{{ x }}{{ y }}",
    "{% set ns = namespace(i=0) %}{% for x in list %}{% set ns.i = ns.i + x %}{% endfor %}{{ ns.i }}",
    "{% set ns = namespace() %}{% set ns.x = [1] %}{{ ns.x }}{{ ns.y is defined }}", "{% set n = n + 1 %}{{ n }}",
    "{% set (a, b), c = [[1, 2], 3] %}{{ a + b + c }}", "{% set x = missing %}{{ x is defined }}",
    "{% set word = word ~ '!' %}{{ word }}",
    # for
    "{% for x in list %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }} {% endfor %}",
    "{% for x in none_list %}a{% else %}none{% endfor %}", "{% for x in missing %}a{% else %}none{% endfor %}",
    "{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in map | items %}{{ k }}{{ loop.last }}{% endfor %}", "{% for k in map %}{{ k }}{% endfor %}",
    "{% for c in 'añ日' %}{{ c }}.{% endfor %}",
    "{% for x in list if x > 1 %}{{ loop.index }}{{ x }}{{ loop.last }} {% else %}e{% endfor %}",
    "{% for x in list %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in list %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for t in tree recursive %}{{ loop.depth }}{{ t.n }}[{{ loop(t.kids) }}]{% endfor %}",
    "{% for a in list %}{% for b in list %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
    "{% set x = 0 %}{% for a in list %}{% set x = x + a %}{{ x }} {% endfor %}{{ x }}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }} {% endfor %}",
    "{% for x in list %}{% if not loop.last %}{{ x }}, {% else %}{{ x }}{% endif %}{% endfor %}",
    "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for x in list[::-1] %}{{ x }}{% endfor %}",
    "{% for x in (list if yes else []) %}{{ x }}{% endfor %}",
    "{% for group in people | groupby('age') %}{{ group.grouper }}:{{ group.list | length }} {% endfor %}",
    "{% for age, who in people | groupby('age') %}{{ age }}={{ who | map(attribute='name') | join('+') }} {% endfor %}",
    "{% set m = list | map('string') %}{{ m | join }}{{ m | join }}",
    "{% for x in [[1, [2, 3]]] %}{% set a, (b, c) = x %}{{ a }}{{ c }}{% endfor %}",
    "{% for loop_item in list %}{{ loop.index }}{% endfor %}{{ loop is defined }}",
    # macros
    "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(1, c=4) }} {{ f() }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}",
    "{% macro f(x) -%} {{ x }} {%- endmacro %}[{{ f('a') ~ f('b') }}]",
    "{% set y = 1 %}{% macro f() %}{{ y }}{% endmacro %}{% set y = 2 %}{{ f() }}",
    "{% macro f(n) %}{% if n %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro f() %}{% set word = 'x' %}{{ word }}{% endmacro %}{{ f() }}{{ word }}",
    "{% macro box(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call box('b') %}in{{ n }}{% endcall %}",
    "{% macro each(l) %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(v, i) each(list) %}{{ i }}:{{ v }} {% endcall %}",
    "{% macro f() %}x{% endmacro %}{{ f().upper() }}{{ f() | length }}{{ f.name }}",
    "{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}{{ f(missing) }}{{ f(none) }}",
    "{% for x in list %}{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% endfor %}",
    "{% macro f(l) %}{% for x in l %}{{ x }}{% endfor %}{% endmacro %}{{ f(*[[1, 2]]) }}{{ f(**{'l': [3]}) }}",
    # other blocks and functions
    "{% filter upper %}a{{ word }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aa{% endfilter %}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}",
    "{% generation %}a{{ n }}\n{% set q = 1 %}\n{% endgeneration %}{{ q is defined }}",
    "{% set j = joiner('; ') %}{% for x in list %}{{ j() }}{{ x }}{% endfor %}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}",
    "{{ raise_exception('Stop: ' ~ n) }}", "a\n{% if yes %}\n{{ raise_exception('Second') }}\n{% endif %}",
    "{% set ns = namespace(l=[]) %}{% for x in list %}{% set ns.l = ns.l + [x * 2] %}{% endfor %}{{ ns.l }}",
    "{% set ns = namespace(a=1, b='x') %}{{ ns }}", "{{ map.items() | selectattr(0, 'eq', 'a') | list }}",
    "{{ (people | selectattr('name', 'equalto', 'bob') | first).age }}",
    "{{ people | map(attribute='tags') | select('defined') | list }}", "{{ 1 is divisibleby 2 is true }}",
    "{%- for m in people %}{{- '<' + m.name + '>' -}}{% endfor %}",
    "{% if 'a' in map and map.a is number and map['b'] > 1 %}ok{% endif %}",
    "{{ [1, 2] is sequence and [1, 2] is not mapping }}", "{{ word if word is string else word | tojson }}",
    "{% if true %}\n\n  x\n\n{% endif %}\n\ny",
]

ERRORS = [
    "{{ missing.x }}", "a\n{{ missing['x'] }}", "{{ missing() }}", "{{ missing + 1 }}", "{{ 'a' + 1 }}", "{{ 1 + 'a' }}",
    "{{ none + 'a' }}", "\n\n{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 'a' < 1 }}", "{{ none < 1 }}",
    "{{ 1 in 'a' }}", "{{ 'a' in none }}", "{{ 'a' in 5 }}", "{{ missing < 1 }}", "{% for x in 5 %}{% endfor %}",
    "{% for x in none %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
    "{{ word.nope() }}", "{{ map.nope.x }}", "{{ n() }}", "{{ 5 | length }}", "{{ none | length }}",
    "{{ [] | tojson(foo=1) }}", "{{ missing | tojson }}", "{{ range | tojson }}", "{{ n | nope }}", "{{ n is nope }}",
    "x\ny\n{{ n | upper(1) }}", "{% set map.x = 1 %}", "{% set q.x = 1 %}", "{{ list.append(4) }}", "{{ map.update({}) }}",
    "{{ map.pop('a') }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(z=2) }}",
    "{{ [1][missing] }}x{{ {[1]: 2} }}", "{{ range(200000) }}", "{{ range(1, 2, 0) }}",
    "{{ {}[[]] }}{{ {} | dictsort(by='x') }}", "{{ [1, 'a'] | sort }}", "{{ 'abc'.index('z') }}", "{{ 'a'.split('') }}",
    "{{ ','.join([1]) }}", "{{ '%d' % 'a' }}", "{{ '%s %s' % 'a' }}", "{{ '%s' % (1, 2) }}", "{{ '{} {}'.format(1) }}",
    "{{ list | first | length }}", "{{ 5 | items | list }}", "{{ n is defined is true }}", "{{ list[1:2:0] }}",
    "{{ list['a':] }}", "{{ word * 'x' }}", "{{ -'a' }}", "{{ 'x' | abs }}", "{{ loop.index }}",
    "{{ [1] | map('nope') | list }}", "{{ [1] | select('nope') | list }}",
    "{{ people | map(attribute='tags.x.y') | list }}", "{{ raise_exception(none) }}", "{{ joiner(1, 2) }}", "{{ [] + () }}",
    "{{ map[1:2] }}",
    # Syntax.
    "{{ 1 +", "{{ }}", "{% if %}{% endif %}", "a\n\n{% if yes %}", "{% endif %}", "{% for x in list %}",
    "{% for x %}{% endfor %}", "{% nope %}", "{% if yes %}{% endfor %}", "{{ 'abc }}", "{# abc", "{% raw %}abc", "{{ (1 }}",
    "{{ [1, 2 }}", "{{ 1) }}", "{{ {'a' 1} }}", "{{ a b }}", "{{ a. }}", "{{ a| }}", "{{ a is }}", "{% set = 1 %}",
    "{% set x %}", "{% macro %}{% endmacro %}", "{% macro f(a=1, b) %}{% endmacro %}", "{{ f(a=1, 2) }}", "{{ $ }}",
    "{{ a ? b }}", "{% include %}", "{% set true = 1 %}", "\n{{ x }}\n  {% else %}", "{% call n %}{% endcall %}",
    "{{ not }}", "{{ 1 if }}", "{{ a[ }}", "{{ a[] }}", "{% for x in list recursive foo %}{% endfor %}",
    "{% filter %}{% endfilter %}", "{{ **a }}", "{% elif x %}", "{% if a = 1 %}{% endif %}",
]


def wrapped(table):
    """Each expression between '~~' or line ends; a backslash at a line's end goes on in the next."""
    joined = table.replace("\\\n", "\\\0")
    return ["{{ " + each.replace("\0", "\n") + " }}" for line in joined.split("\n") for each in line.split("~~")]


SNIPPETS = [s for table in (EXPRESSIONS, FILTERS, METHODS, TESTS, MARKUP, INTEGERS) for s in wrapped(table)] + BLOCKS + ERRORS
