// What `encoder` names: a kind, or a folder, and where one that is named lies on this machine.
#pragma once

#include <string>

namespace elmo {

inline constexpr const char* kLinearEncoder = "linear";
// Of a run that is a head on vectors from elsewhere (elmo/vector_head.h): there is no encoder.
inline constexpr const char* kVectorEncoder = "vectors";

// Whether it is neither linear nor vectors nor bag nor auto.
bool is_encoder_folder(const std::string& encoder);

// Whether the folder has a tokenizer's files, of any kind: also of one that cannot be read.
bool holds_tokenizer(const std::string& folder);

// `encoder` itself when it is a kind or a folder; the checkpoint of a run's folder, best or else last; else
// the newest snapshot of that name in the Hugging Face cache ($HF_HUB_CACHE, $HF_HOME/hub or
// ~/.cache/huggingface/hub), where sentence-transformers may be left out of its models' names. ConfigError
// when there is none: it says how to get one.
std::string encoder_folder(const std::string& encoder);

}  // namespace elmo
