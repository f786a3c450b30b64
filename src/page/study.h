// The result of a study: words, tables and charts. The tables go to study.json and study.csv with every
// digit, and rounded to the page; charts are drawn from the same numbers.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "page/chart.h"

namespace elmo {

// Nothing, a text, a whole number or a number.
using Cell = std::variant<std::monostate, std::string, std::int64_t, double>;

struct Column {
    std::string name;  // key in JSON and CSV: "peak_gib"
    std::string head;  // on the page: "peak, GiB"
    int digits = 2;    // of a number on the page
};

struct Table {
    std::string name;  // key in JSON, part of the file name of further tables
    std::string caption;
    std::vector<Column> columns;
    std::vector<std::vector<Cell>> rows;  // each as long as columns
    std::string title = {};               // above the caption on the page
};

struct Study {
    std::string name;                     // "memory"
    std::string title;                    // of the page
    std::vector<std::string> paragraphs;  // what is shown and how it was made; plain text
    std::vector<Chart> charts;
    std::vector<Table> tables;     // at least one; the first is study.csv
    std::size_t tables_first = 0;  // so many tables stand before the charts
};

// Where and how a study was made.
struct Provenance {
    std::string command, date, machine, version;
};

// A cell with every digit, as JSON, CSV and the page's data-value attributes hold it; "" for nothing.
std::string exact_text(const Cell& cell);
// The same rounded for people, with commas between thousands.
std::string rounded_text(const Cell& cell, int digits);

std::string study_json(const Study& study, const Provenance& provenance);
std::string table_csv(const Table& table);
std::string study_page(const Study& study, const Provenance& provenance);
// The tables in columns, for a terminal: of a long one the last rows.
std::string study_text(const Study& study);

}  // namespace elmo
