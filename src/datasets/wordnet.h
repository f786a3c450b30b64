// A real data set out of WordNet's dictionary files: definitions of nouns and verbs as texts, the kinds of
// thing they are (hypernym ancestors) as labels, in the XMC repository text layout.
#pragma once

#include <cstdint>
#include <filesystem>

#include "elmo/context.h"
#include "elmo/dataset.h"

namespace elmo {

struct WordnetOptions {
    double test_share = 0.2;     // of the texts, by a hash of the synset's id
    double widest_label = 0.05;  // ancestors of more than this share of all texts are left out
    bool overwrite = false;
};

// Reads data.noun and data.verb of `dict_folder` and writes trn_X.txt, trn_X_Y.txt, tst_X.txt, tst_X_Y.txt,
// Y.txt and the ids (trn_ids.txt, tst_ids.txt, Y_ids.txt) into `out_folder`. Labels are those seen in
// training; texts without a label are dropped. ConfigError when out_folder has such files already and
// overwrite is off.
DataSummary write_wordnet(const Context& context, const std::filesystem::path& dict_folder,
                          const std::filesystem::path& out_folder, const WordnetOptions& options = {});

}  // namespace elmo
