// study.html: one file with its style and its charts inside, nothing fetched. Each chart is drawn twice, for
// wide and for narrow windows, and a media query shows one; so numbers stay readable at 360 pixels.
#include <fmt/format.h>

#include <algorithm>

#include "page/study.h"
#include "page/svg.h"

namespace elmo {
namespace {

// Escaped, and what stands between backquotes as code.
std::string prose(std::string_view text) {
    std::string out;
    bool code = false;
    for (const char c : escaped(text)) {
        if (c != '`') {
            out += c;
            continue;
        }
        code = !code;
        out += code ? "<code>" : "</code>";
    }
    return code ? escaped(text) : out;  // an odd one is only a backquote
}

constexpr int kWide = 720, kNarrow = 328;
constexpr std::size_t kTallRows = 60;  // a longer table scrolls by itself

constexpr const char* kStyle = R"css(
:root{color-scheme:light dark;--back:#fff;--text:#1c1e21;--soft:#5b6270;--rule:#e3e6ea;--axis:#9aa1ab;--code:#f4f5f7;
--s0:#2868b0;--s1:#d9720b;--s2:#258a55;--s3:#b03a48;--s4:#7a57b5;--s5:#8a6a3b;--s6:#c2559d;--s7:#6b7280;--s8:#12909c;--s9:#9ba02b;--strong:#fff}
@media(prefers-color-scheme:dark){:root{--back:#16181c;--text:#e6e8eb;--soft:#a2a9b4;--rule:#2c3037;--axis:#666e7a;
--code:#20242a;--s0:#6aa9f0;--s1:#f2a050;--s2:#5cc58c;--s3:#f0808c;--s4:#b59af0;--s5:#cdaa72;--s6:#ee94cf;--s7:#a4abb8;--s8:#5cc8d2;--s9:#ccd061;
--strong:#10131a}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif}
main{max-width:752px;margin:0 auto;padding:16px}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}
h2{font-size:1.1rem;margin:2rem 0 .25rem}
p{margin:.5rem 0;overflow-wrap:break-word}
figure{margin:2rem 0}
figcaption strong{display:block}
figcaption,caption,footer{color:var(--soft);font-size:.875rem}
figcaption strong,caption strong{color:var(--text);font-size:1rem}
caption{text-align:left;padding-bottom:.5rem;caption-side:top}
svg{display:block;max-width:100%;height:auto;font:11.5px system-ui,sans-serif}
svg.narrow{display:none}
@media(min-width:752px){.legend.of-narrow{display:none}}
@media(max-width:751px){svg.wide{display:none}svg.narrow{display:block;width:100%}}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:.5rem 0;padding:0;font-size:.875rem}
.legend i{display:inline-block;width:.75em;height:.75em;border-radius:2px;margin-right:.4em}
.grid{stroke:var(--rule)}.axis{stroke:var(--axis)}.edge{stroke:var(--axis);stroke-dasharray:2 3}
.tick{fill:var(--soft)}.label{fill:var(--text)}.total{fill:var(--text);font-weight:600}.value{fill:var(--text);font-size:10.5px}
.line{fill:none;stroke-width:2}.mark{stroke-width:2}.mark:hover,.bar:hover,.layer:hover,.cell:hover{opacity:.75}
.layer{stroke:var(--back);stroke-width:1}.band{fill:var(--s7);fill-opacity:.25}
.cell{fill:var(--s0)}.empty{fill:none;stroke:var(--rule)}.in-cell{fill:var(--text)}.in-cell.strong{fill:var(--strong)}
.scroll{overflow-x:auto;margin:2rem 0}.tall{max-height:40rem;overflow-y:auto}.tall thead{position:sticky;top:0;background:var(--back)}
table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}
td.long{min-width:9rem}td.word{white-space:nowrap}caption strong{display:block}
th{font-weight:600;vertical-align:bottom}
td.number,th.number{text-align:right}td.number{white-space:nowrap}
pre{background:var(--code);padding:.6rem;overflow-x:auto;font-size:.8125rem;white-space:pre-wrap;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:auto 1fr;gap:.2rem 1rem;margin:.5rem 0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
)css";

// The drawing of one width, marked with its class.
template <class AnyChart>
std::string drawn(const AnyChart& chart, int width, const char* name) {
    std::string text = svg(chart, width);
    return text.insert(4, fmt::format(" class=\"{}\"", name));  // behind "<svg"
}

std::string figure(const Chart& chart) {
    std::string out = "<figure>\n";
    std::visit(
        [&](const auto& any) {
            out += fmt::format("<figcaption><strong>{}</strong>{}</figcaption>\n", escaped(any.title),
                               prose(any.caption));
        },
        chart);
    const std::vector<std::string> names = legend(chart);
    if (!names.empty()) {
        const auto* lines = std::get_if<LineChart>(&chart);
        const bool named =
            lines != nullptr && names_lines(*lines, kWide);  // the narrow drawing still needs it
        out += fmt::format("<ul class=\"legend{}\">", named ? " of-narrow" : "");
        for (std::size_t i = 0; i < names.size(); ++i)
            out += fmt::format("<li><i style=\"background:{}\"></i>{}</li>", series_colour(i),
                               escaped(names[i]));
        out += "</ul>\n";
    }
    std::visit([&](const auto& any) { out += drawn(any, kWide, "wide") + drawn(any, kNarrow, "narrow"); },
               chart);
    return out + "</figure>\n";
}

bool is_number(const Cell& cell) {
    return std::holds_alternative<std::int64_t>(cell) || std::holds_alternative<double>(cell);
}

// Long texts get room: columns of numbers would press them to a word per line. A name is not broken at its
// hyphens.
const char* class_of(const Cell& cell) {
    if (is_number(cell)) return " class=\"number\"";
    const auto* text = std::get_if<std::string>(&cell);
    if (text == nullptr) return "";
    if (text->size() > 24) return " class=\"long\"";
    return text->find('-') != std::string::npos && text->find(' ') == std::string::npos ? " class=\"word\""
                                                                                        : "";
}

std::string table_html(const Table& table) {
    // Columns of numbers, and their heads, are aligned to the right.
    std::vector<bool> numbers(table.columns.size(), false);
    for (const auto& row : table.rows)
        for (std::size_t c = 0; c < numbers.size(); ++c) numbers[c] = numbers[c] || is_number(row[c]);
    const std::string title =
        table.title.empty() ? "" : fmt::format("<strong>{}</strong>", escaped(table.title));
    std::string out = fmt::format(
        "<div class=\"scroll{}\" tabindex=\"0\"><table id=\"{}\">\n<caption>{}{}</caption>\n<thead><tr>",
        table.rows.size() > kTallRows ? " tall" : "", escaped(table.name), title, prose(table.caption));
    for (std::size_t c = 0; c < numbers.size(); ++c)
        out +=
            fmt::format("<th{}>{}</th>", numbers[c] ? " class=\"number\"" : "", prose(table.columns[c].head));
    out += "</tr></thead>\n<tbody>\n";
    for (const auto& row : table.rows) {
        out += "<tr>";
        for (std::size_t c = 0; c < row.size(); ++c)
            out +=
                fmt::format("<td{} data-value=\"{}\">{}</td>", class_of(row[c]), escaped(exact_text(row[c])),
                            escaped(rounded_text(row[c], table.columns[c].digits)));
        out += "</tr>\n";
    }
    return out + "</tbody></table></div>\n";
}

}  // namespace

std::vector<std::string> legend(const Chart& chart) {
    std::vector<std::string> names;
    std::visit(
        [&](const auto& any) {
            if constexpr (requires { any.series; })
                for (const auto& series : any.series) names.push_back(series.name);
        },
        chart);
    if (names.size() < 2) names.clear();
    return names;
}

std::string study_page(const Study& study, const Provenance& provenance) {
    std::string out = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width,initial-scale=1\">\n<title>{0}</title>\n<style>{1}</style></head>\n"
        "<body><main>\n<h1>{0}</h1>\n",
        escaped(study.title), kStyle);
    for (const std::string& paragraph : study.paragraphs) out += fmt::format("<p>{}</p>\n", prose(paragraph));
    const std::size_t first = std::min(study.tables_first, study.tables.size());
    for (std::size_t t = 0; t < first; ++t) out += table_html(study.tables[t]);
    for (const Chart& chart : study.charts) out += figure(chart);
    for (std::size_t t = first; t < study.tables.size(); ++t) out += table_html(study.tables[t]);
    out +=
        fmt::format("<footer><h2>How this was made</h2>\n<pre>{}</pre>\n<dl>", escaped(provenance.command));
    for (const auto& [name, value] : {std::pair("date", provenance.date),
                                      {"machine", provenance.machine},
                                      {"version", provenance.version}})
        out += fmt::format("<dt>{}</dt><dd>{}</dd>", name, escaped(value));
    return out + "</dl></footer>\n</main></body></html>\n";
}

}  // namespace elmo
