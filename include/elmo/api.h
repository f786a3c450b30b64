// ELMO_API marks what a program may call: libelmo.so exports these functions and classes and hides all
// others. Compilers that do not know the attribute ignore it.
#pragma once

#define ELMO_API [[gnu::visibility("default")]]
