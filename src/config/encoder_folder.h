// Where an encoder that is named, not given as a folder, lies on this machine.
#pragma once

#include <string>

namespace elmo {

// `encoder` itself when it is bag or a folder; else the newest snapshot of that name in the Hugging Face
// cache
// ($HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub). ConfigError when there is none: it says how to
// get one.
std::string encoder_folder(const std::string& encoder);

}  // namespace elmo
