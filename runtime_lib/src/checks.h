// Checks of the command line before any rank starts: each mistake is one line and an exit code.
#pragma once
#include "options.h"
#include "ports.h"

namespace weft {

/// Checks inputs, states and their lengths, folders and files to write, and the rank to stall. Throws Failure:
/// wrong input or usage.
void check_options(const Executable& executable, const Options& options);

/// "<=4x2", "(1 or 8)x2", "scalar": the shape of the port in a file.
std::string port_shape_text(const Port& port);
/// Throws Failure (wrong input) unless each dimension of the shape is the port's, or at most the port's bound
/// where it is bounded. `file` names the culprit.
void check_shape(const Port& port, const std::vector<int64_t>& shape, const std::string& file);
/// The run-time lengths in a shape that fits, one for each bound of the port.
std::vector<int64_t> lengths_of(const Port& port, const std::vector<int64_t>& shape);

/// The file of a state's initial value: --input's, else the one in the folder of --load-state; empty: the default
/// value.
std::string first_file_of_state(const Options& options, const char* name);
/// The file of an input in one invocation ("{i}" becomes its number), and the file of a state in a folder.
std::string input_file(std::string pattern, int invocation);
std::string state_file(const std::string& folder, const char* name);

/// A name as part of a file's name: other characters than letters, digits, '.', '_' and '-' become '_'.
std::string file_name(const std::string& name);
/// Makes a folder and those above it.
void make_folder(const std::string& path);

}  // namespace weft
