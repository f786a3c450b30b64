// Finds the folder of an encoder that is given by name.
#pragma once

#include <string>

namespace elmo {

// `encoder` itself when it is bag or a folder; else the newest snapshot of that name in the Hugging Face
// cache
// ($HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub). ConfigError if there is none, with advice how to
// get one.
std::string encoder_folder(const std::string& encoder);

}  // namespace elmo
