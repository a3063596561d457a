#pragma once
#include <string_view>  // for string_view

#include "io/pickle_stack.h"

namespace kirchhoff::io {

/// GLOBAL and its kin: pushes what an allowed name stands for, and refuses any other by name.
void push_global(PickleStack& stack, std::string_view module, std::string_view name);
[[noreturn]] void refuse_global(const PickleStack& stack, std::string_view module, std::string_view name);

/// REDUCE: takes a tuple of arguments and an allowed function off the stack and pushes what the call would return.
void reduce(PickleStack& stack);

/// BINPERSID: takes ('storage', class, key, location, count[, view]) off the stack and pushes the storage.
void push_storage(PickleStack& stack);

/// BUILD: drops the state of an OrderedDict (its _metadata), which is of no use here; nothing else here has one.
void build(PickleStack& stack);

}  // namespace kirchhoff::io
