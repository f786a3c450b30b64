// Tensors of a PyTorch checkpoint (torch.save of a state_dict: pytorch_model.bin, *.pt), as views of the
// mapped file. Such a file is a pickle, a program for a small machine that can call any Python function. Here
// it is only read: the few calls that make tensors are understood, every other one is refused, and nothing is
// executed.
#pragma once

#include "formats/safetensors.h"
#include "io/mmap_file.h"

namespace elmo {

// The zip files of torch 1.6 and newer and the files from before. The state_dict may be a value of a
// dictionary, under a name such as "state_dict"; the prefix "module." of data-parallel training is left out.
// DataError names the file and what is wrong: damage, a tensor outside its storage or not stored row by row,
// another function than those of torch.save.
SafeTensors open_torch_file(MappedFile file);

}  // namespace elmo
