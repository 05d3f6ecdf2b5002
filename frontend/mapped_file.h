// Files as bytes: mapped, or read if they are pipes.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace weftc {

struct MappedFile {
  std::span<const std::byte> bytes;
  std::unique_ptr<void, void (*)(void*)> memory{nullptr, [](void*) {}};
  std::string error;  // why the file could not be read: "no such file or directory"
};

/// Maps a regular file. Reads a pipe to its end, which waits for its writer, and keeps the bytes until the program
/// ends. On failure `error` says why.
MappedFile map_file(const std::string& path);
/// The same for an open descriptor, which it closes.
MappedFile map_descriptor(int descriptor);
/// Opens `location` (relative) beneath the folder of `file`, never outside it, also not through symbolic links. Only if
/// the folder is in the `snapshots` of a cache, next to its `blobs`, links may lead to any place in the cache.
MappedFile map_beneath(const std::string& file, const std::string& location);

}  // namespace weftc
