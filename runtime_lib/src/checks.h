// What the command line asks for, checked before any rank starts: each mistake is one line and an exit code.
#pragma once
#include "options.h"
#include "ports.h"

namespace weft {

/// Inputs, states and their lengths, folders and files to write, the rank to stall.
void check_options(const Executable& executable, const Options& options);

/// A shape fits a port if every dimension is the port's, or, where bounded, not larger.
void check_shape(const Port& port, const std::vector<int64_t>& shape, const std::string& file);
/// The run-time lengths in a shape that fits, one for each bound of the port.
std::vector<int64_t> lengths_of(const Port& port, const std::vector<int64_t>& shape);

/// The file of an input in one invocation, and that of a state.
std::string input_file(std::string pattern, int invocation);
std::string state_file(const std::string& folder, const char* name);

/// A name as part of a file's name.
std::string file_name(const std::string& name);
/// Makes a folder and those above it.
void make_folder(const std::string& path);

}  // namespace weft
