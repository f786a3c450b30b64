#include "study/paper_figures.h"

namespace elmo {

const std::vector<PaperSet>& paper_sets() {
    static const std::vector<PaperSet> sets = {
        {"wiki-500k", "Wiki-500K", 1779881, 501070, 769421, 4.75, 16.86},
        {"amazontitles-670k", "AmazonTitles-670K", 485176, 670091, 150875, 5.39, 5.11},
        {"amazon-670k", "Amazon-670K", 490449, 670091, 153025, 5.45, 3.99},
        {"amazon-3m", "Amazon-3M", 1717899, 2812281, 742507, 36.17, 31.64},
        {"lf-amazontitles-131k", "LF-AmazonTitles-131K", 294805, 131073, 134835, 2.29, 5.15},
        {"lf-wikiseealso-320k", "LF-WikiSeeAlso-320K", 693082, 312330, 177515, 2.11, 4.67},
        {"lf-amazontitles-1.3m", "LF-AmazonTitles-1.3M", 2248619, 1305265, 970237, 22.2, 38.24},
        {"lf-paper2keywords-8.6m", "LF-Paper2Keywords-8.6M", 2020621, 8623847, 2020621, 9.03, 2.12}};
    return sets;
}

const std::vector<PaperResult>& paper_results() {
    static const std::vector<PaperResult> results = {
        {"T2", "wiki-500k", "renee", 78.69, 60.03, 46.46, 12.69, "18:37", 32.9, 42.31, 46.78},
        {"T2", "wiki-500k", "bf16", 78.61, 60.04, 46.59, 7.21, "17:01", 33.32, 42.56, 47.03},
        {"T2", "wiki-500k", "fp8", 78.39, 59.64, 46.12, 5.01, "11:28", 32.40, 41.68, 46.17},
        {"T2", "amazontitles-670k", "renee", 43.78, 39.17, 35.91, 12.46, "2:04", 27, 31.1, 34.89},
        {"T2", "amazontitles-670k", "bf16", 44.3, 39.7, 36.4, 5.12, "1:47", 28.62, 32.13, 35.27},
        {"T2", "amazontitles-670k", "fp8", 44.39, 39.75, 36.43, 3.37, "1:18", 28.24, 31.88, 35.26},
        {"T2", "amazon-670k", "renee", 50.6, 45.16, 41.13, 11.91, "7:14", 31.45, 36.16, 40.15},
        {"T2", "amazon-670k", "bf16", 50.7, 45.27, 41.29, 5.29, "6:00", 30.84, 35.69, 40.06},
        {"T2", "amazon-670k", "fp8", 50.34, 44.91, 40.97, 3.3, "4:05", 30.57, 35.33, 39.67},
        {"T2", "amazon-3m", "renee", 52.6, 49.7, 47.43, 39.7, "29:58", 14.39, 17.47, 19.80},
        {"T2", "amazon-3m", "bf16", 53.4, 50.9, 48.8, 10.39, "25:15", 15.65, 19.05, 21.6},
        {"T2", "amazon-3m", "fp8", 52.73, 50.38, 48.27, 6.6, "18:02", 16.06, 19.48, 21.98},
        {"T2", "lf-wikiseealso-320k", "renee", 47.86, 31.91, 24.05, 13.89, "10:50", 32.02, 37.07, 40.9},
        {"T2", "lf-wikiseealso-320k", "bf16", 47.84, 31.99, 24.12, 6.57, "10:08", 31.65, 37.08, 41.04},
        {"T2", "lf-wikiseealso-320k", "fp8", 47.88, 31.92, 24.09, 5.2, "6:22", 31.87, 36.98, 40.90},
        {"T2", "lf-amazontitles-1.3m", "renee", 56.04, 49.91, 45.32, 19.9, "9:12", 28.54, 33.38, 36.14},
        {"T2", "lf-amazontitles-1.3m", "bf16", 56.14, 49.86, 45.25, 6.61, "9:10", 30.38, 34.59, 37.09},
        {"T2", "lf-amazontitles-1.3m", "fp8", 54.97, 48.41, 43.82, 4.31, "17:44", 26.72, 31.58, 34.46},
        {"T3", "lf-paper2keywords-8.6m", "fp32", 43.60, 32.13, 26.02, 58.44, ""},
        {"T3", "lf-paper2keywords-8.6m", "renee", 17.65, 11.78, 9.23, 105.64, ""},
        {"T3", "lf-paper2keywords-8.6m", "bf16", 45.4, 33.58, 27.18, 18.8, ""},
        {"T3", "lf-paper2keywords-8.6m", "fp8", 43.4, 31.59, 25.38, 9.02, ""},
        {"T8", "lf-amazontitles-131k", "renee", 46.05, 30.81, 22.04, 5.53, "0:33", 39.08, 45.12, 50.48},
        {"T8", "lf-amazontitles-131k", "bf16", 45.6, 30.6, 21.9, 3.41, "0:31", 38.84, 45.02, 50.39},
        {"T8", "lf-amazontitles-131k", "fp8", 45.45, 30.53, 21.87, 2.75, "0:22", 38.75, 44.98, 50.41}};
    return results;
}

const std::vector<PaperGigabytes>& paper_gigabytes() {
    static const std::vector<PaperGigabytes> rows = {
        {"T4", "lf-amazontitles-1.3m", "bf16", 5.50, "17:26"},
        {"T4", "lf-amazontitles-1.3m", "fp8", 4.63, "17:44"},
        {"T4", "amazon-3m", "bf16", 8.51, "15:56"},
        {"T4", "amazon-3m", "fp8", 7.16, "18:02"},
        {"T5", "lf-amazontitles-1.3m", "bf16", 5.45, "57:36"},
        {"T5", "amazon-3m", "bf16", 8.46, "121:17"},
        {"T5", "lf-paper2keywords-8.6m", "bf16", 10.49, "229:24"}};
    return rows;
}

const std::vector<PaperRepair>& paper_repairs() {
    static const std::vector<PaperRepair> rows = {{"fp8+refine", 55.4, 48.87, 44.34, 4.31},
                                                  {"fp8+kahan20", 55.6, 49.38, 44.88, 4.65}};
    return rows;
}

const std::vector<PaperChunks>& paper_chunks() {
    static const std::vector<PaperChunks> rows = {
        {1, "13:22", 14.74},  {2, "12:20", 14.40},  {4, "12:12", 12.22},  {8, "11:09", 11.13},
        {16, "11:23", 10.59}, {32, "12:39", 10.32}, {64, "14:19", 10.20}, {128, "19:44", 10.20}};
    return rows;
}

}  // namespace elmo
