#include "dtc/Files/Checkpoint.h"

#include "dtc/Support/ElementCount.h"
#include "dtc/Support/Sha256.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <new>
#include <stdexcept>
#include <sys/file.h>
#include <unistd.h>

namespace dtc {
namespace {

namespace fs = std::filesystem;

constexpr const char *kCheckpointManifest = "checkpoint.json", *kStep = "step-", *kWriting = ".writing-",
                     *kRemoving = ".removing-";
constexpr int64_t kMaxCheckpointManifest = 100'000'000;

std::string stepName(int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
  return kStep + digits;
}

Error cannotWrite(const std::string& path, int number = errno) {
  return machineError("cannot write " + quotedPath(path) + ": " + std::strerror(number));
}

// Flushes a folder, so that the names in it survive a loss of power.
Status flushFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return cannotWrite(path);
  const int failed = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  if (failed && failed != EINVAL)
    return cannotWrite(path, failed); // EINVAL: this file system has no such flush
  return Ok{};
}

// A new file: its bytes in order, hashed, then flushed to the disk.
Result<CheckpointManifest::File> writeFlushed(const std::string& folder, const std::string& name,
                                              const std::function<Status(const ByteSink&)>& write) {
  const std::string path = folder + "/" + name;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return cannotWrite(path);
  Sha256 hash;
  CheckpointManifest::File file{name, 0, ""};
  Status s = write([&](std::string_view bytes) -> Status {
    hash.add(bytes);
    file.bytes += static_cast<int64_t>(bytes.size());
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return cannotWrite(path);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return Ok{};
  });
  if (s && fsync(fd) != 0) s = cannotWrite(path);
  if (close(fd) != 0 && s) s = cannotWrite(path);
  if (!s) return s.error();
  file.sha256 = toHex(hash.finish());
  return file;
}

// Pieces by the file that they are written to; a tensor has at most one piece per device.
std::map<int64_t, NamedTensors> byDevice(const std::vector<PiecedTensor>& tensors) {
  std::map<int64_t, NamedTensors> files;
  for (const PiecedTensor& t : tensors)
    for (const TensorPiece& p : t.pieces) files[p.device].emplace_back(t.name, &p.value);
  return files;
}

// Complex numbers are stored as their parts, because .safetensors has none.
NamedTensors storable(const NamedTensors& in, std::vector<Tensor>& parts) {
  NamedTensors out = in;
  parts.reserve(in.size());
  for (auto& [name, tensor] : out)
    if (isComplex(tensor->dtype())) tensor = &parts.emplace_back(tensor->parts());
  return out;
}

Status writeParts(const std::string& folder, CheckpointManifest& manifest,
                  const std::vector<PiecedTensor>& tensors) {
  std::map<int64_t, size_t> number; // of the file of a device
  for (const auto& [device, named] : byDevice(tensors)) {
    std::vector<Tensor> parts;
    const NamedTensors stored = storable(named, parts);
    std::string digits = std::to_string(device);
    if (digits.size() < 5) digits.insert(0, 5 - digits.size(), '0');
    DTC_TRY(auto file, writeFlushed(folder, "shard-" + digits + ".safetensors",
                                    [&](const ByteSink& sink) { return writeSafetensors(stored, sink); }));
    number[device] = manifest.files.size();
    manifest.files.push_back(std::move(file));
  }
  for (const PiecedTensor& t : tensors) {
    CheckpointManifest::Entry entry{t.name, t.dtype, t.shape, {}};
    for (const TensorPiece& p : t.pieces)
      entry.pieces.push_back({number[p.device], p.offset, p.value.shape()});
    manifest.tensors.push_back(std::move(entry));
  }
  const std::string json = manifestJson(manifest);
  DTC_TRY(auto written, writeFlushed(folder, std::string(kCheckpointManifest) + ".part",
                                     [&](const ByteSink& sink) { return sink(json); }));
  const std::string path = folder + "/" + kCheckpointManifest;
  if (rename((folder + "/" + written.name).c_str(), path.c_str()) != 0) return cannotWrite(path);
  return flushFolder(folder);
}

std::optional<int64_t> stepOf(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  const auto step = parseNumber<int64_t>(name.substr(std::strlen(kStep)));
  return step && name == stepName(*step) ? step : std::nullopt;
}

// Removes a checkpoint in a way that never leaves a part of it under its name.
void removeCheckpoint(const std::string& folder, const std::string& name) {
  const std::string hidden = folder + "/" + kRemoving + name;
  std::error_code ignored;
  if (rename((folder + "/" + name).c_str(), hidden.c_str()) == 0) fs::remove_all(hidden, ignored);
}

} // namespace

Result<std::vector<CheckpointFolder::Found>> CheckpointFolder::list(const std::string& folder) {
  std::vector<Found> found;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (const auto step = stepOf(name); step && fs::exists(at->path() / kCheckpointManifest, ignored))
      found.push_back({*step, folder + "/" + name});
  }
  if (error) return inputError("cannot read the folder " + quotedPath(folder) + ": " + error.message());
  std::ranges::sort(found, {}, &Found::step);
  return found;
}

Result<std::unique_ptr<CheckpointFolder>> CheckpointFolder::open(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return machineError("cannot create the folder " + quotedPath(folder) + ": " + error.message());
  const std::string lock = folder + "/.lock";
  const int fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return cannotWrite(lock);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int failed = errno;
    close(fd);
    if (failed == EWOULDBLOCK)
      return usageError("another run writes its checkpoints to " + quotedPath(folder) +
                        ": use another folder");
    return cannotWrite(lock, failed);
  }
  std::vector<fs::path> stale;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(std::string(kWriting) + kStep) || name.starts_with(std::string(kRemoving) + kStep))
      stale.push_back(at->path());
  }
  for (const fs::path& path : stale) fs::remove_all(path, error);
  return std::unique_ptr<CheckpointFolder>(new CheckpointFolder(folder, fd));
}

CheckpointFolder::~CheckpointFolder() { close(lock_); }

std::string CheckpointFolder::pathOf(int64_t step) const { return path_ + "/" + stepName(step); }

Status CheckpointFolder::write(CheckpointManifest manifest, const std::vector<PiecedTensor>& tensors,
                               size_t keep) const {
  const std::string name = stepName(manifest.step), temporary = path_ + "/" + kWriting + name;
  std::error_code error;
  fs::remove_all(temporary, error);
  if (!fs::create_directory(temporary, error)) return cannotWrite(temporary, error.value());
  Status s = writeParts(temporary, manifest, tensors);
  const std::string path = path_ + "/" + name;
  if (s) removeCheckpoint(path_, name); // of an earlier run that got no further
  if (s && rename(temporary.c_str(), path.c_str()) != 0) s = cannotWrite(path);
  if (s) s = flushFolder(path_);
  if (!s) {
    fs::remove_all(temporary, error);
    return s;
  }
  DTC_TRY(const auto found, list(path_));
  for (size_t i = 0; i + keep < found.size(); ++i) removeCheckpoint(path_, stepName(found[i].step));
  return Ok{};
}

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  Checkpoint c;
  c.folder_ = folder;
  DTC_TRY(const auto file, InputFile::openBeneath(folder, kCheckpointManifest));
  if (file.size() > kMaxCheckpointManifest)
    return inputError(quotedPath(file.path()) + " has more than 100000000 bytes");
  DTC_TRY(const auto text, file.text(0, file.size()));
  auto manifest = parseCheckpointManifest(text);
  if (!manifest)
    return inputError(quotedPath(file.path()) + " is not a valid manifest: " + manifest.error().message);
  c.manifest_ = *std::move(manifest);
  for (const CheckpointManifest::File& f : c.manifest_.files) {
    DTC_TRY(auto piece, InputFile::openBeneath(folder, f.name));
    if (piece.size() != f.bytes)
      return inputError(quotedPath(piece.path()) + " has " + std::to_string(piece.size()) + " bytes, but " +
                        std::to_string(f.bytes) + " were written: the checkpoint is damaged");
    c.files_.push_back(std::make_shared<const InputFile>(std::move(piece)));
    DTC_TRY(auto again, InputFile::openBeneath(folder, f.name));
    DTC_TRY(auto archive, openSafetensors(std::move(again)));
    c.archives_.push_back(std::move(archive));
  }
  return c;
}

Status Checkpoint::verify() const {
  std::string buffer(1 << 20, '\0');
  for (size_t i = 0; i < files_.size(); ++i) {
    Sha256 hash;
    for (int64_t at = 0; at < files_[i]->size();) {
      const auto n = static_cast<size_t>(std::min<int64_t>(1 << 20, files_[i]->size() - at));
      const auto part = std::as_writable_bytes(std::span(buffer)).first(n);
      if (Status s = files_[i]->read(at, part); !s) return s;
      hash.add(std::string_view(buffer).substr(0, n));
      at += static_cast<int64_t>(n);
    }
    if (toHex(hash.finish()) != manifest_.files[i].sha256)
      return inputError(quotedPath(files_[i]->path()) +
                        " does not have the SHA-256 that its manifest states: the checkpoint is damaged");
  }
  return Ok{};
}

// Copies a piece into its tensor, row by row.
static void place(const TensorPiece& piece, Tensor& whole) {
  const std::vector<int64_t>& shape = piece.value.shape();
  if (shape.empty() || piece.value.numElements() == 0) {
    std::memcpy(whole.bytes().data(), piece.value.bytes().data(), piece.value.bytes().size());
    return;
  }
  const auto width = static_cast<size_t>(dtypeBytes(whole.dtype()));
  const size_t rank = shape.size(), row = static_cast<size_t>(shape[rank - 1]) * width;
  const std::vector<int64_t> strides = whole.strides();
  std::vector<int64_t> index(rank, 0);
  const std::byte* from = piece.value.bytes().data();
  for (int64_t rows = piece.value.numElements() / shape[rank - 1]; rows > 0; --rows, from += row) {
    int64_t to = 0;
    for (size_t d = 0; d < rank; ++d) to += (piece.offset[d] + index[d]) * strides[d];
    std::memcpy(whole.bytes().data() + static_cast<size_t>(to) * width, from, row);
    for (size_t d = rank - 1; d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

Result<Tensor> Checkpoint::read(const CheckpointManifest::Entry& entry) const {
  const bool complex = isComplex(entry.dtype);
  try {
    Tensor whole(entry.dtype, entry.shape);
    for (const CheckpointManifest::Piece& p : entry.pieces) {
      std::vector<int64_t> shape = p.shape;
      if (complex) shape.push_back(2);
      TensorArchive& archive = *archives_[p.file];
      if (!archive.has(entry.name))
        return inputError(quotedPath(archive.path()) + " has no tensor '" + entry.name + "'");
      DTC_TRY(const auto source, archive.tensor(entry.name, partType(entry.dtype), &shape));
      DTC_TRY(auto value, source.tensor());
      place({p.offset, complex ? Tensor::fromParts(value) : std::move(value)}, whole);
    }
    return whole;
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {}
  return machineError("not enough memory for the tensor '" + entry.name + "' of " + quotedPath(folder_));
}

Result<std::vector<CheckpointFolder::Found>> checkpointsIn(const std::string& folder) {
  std::error_code ignored;
  if (fs::exists(fs::path(folder) / kCheckpointManifest, ignored)) {
    DTC_TRY(const auto one, Checkpoint::open(folder));
    return std::vector<CheckpointFolder::Found>{{one.manifest().step, folder}};
  }
  if (!fs::is_directory(folder, ignored)) return inputError(quotedPath(folder) + " is not a folder");
  return CheckpointFolder::list(folder);
}

Result<Checkpoint> chosenCheckpoint(const std::string& folder, int64_t step) {
  DTC_TRY(const auto found, checkpointsIn(folder));
  if (found.empty()) return inputError(quotedPath(folder) + " has no checkpoint");
  const auto at = step < 0 ? found.end() - 1 : std::ranges::find(found, step, &CheckpointFolder::Found::step);
  if (at == found.end())
    return inputError(quotedPath(folder) + " has no checkpoint of step " + std::to_string(step) +
                      "; it has those of " +
                      joined(found, ", ", [](const auto& f) { return std::to_string(f.step); }));
  return Checkpoint::open(at->path);
}

} // namespace dtc
