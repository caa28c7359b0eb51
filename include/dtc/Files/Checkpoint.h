#pragma once
// Checkpoints of a training run: a folder with a folder for each, `step-00000100`, in which
//   state.safetensors   the global tensors
//   checkpoint.json     the manifest: step, position in the data, and each tensor with the SHA-256 of its pieces
// (docs/training.md). A checkpoint is written to a temporary folder, flushed to the disk, and renamed, so that a
// folder of that name is complete. Several processes write one together, each its own pieces. All files are untrusted when they are read.
#include "dtc/Files/TensorArchive.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/Files/TensorPieces.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

inline constexpr int64_t kCheckpointFormat = 2;

// Where a run is in the data, and what the data were.
struct DataState {
  struct Source {
    std::string argument;
    int64_t samples = 0, window = 0, stride = 0, offset = 0;
    friend bool operator==(const Source&, const Source&) = default;
  };
  int64_t position = 0; // samples taken
  uint64_t seed = 0;
  bool fileOrder = false;
  std::vector<Source> sources;
};

struct CheckpointManifest {
  struct Piece {
    TensorBox box;
    std::string sha256; // of its elements
  };
  struct Entry {
    std::string name;
    DType dtype = DType::F32;
    std::vector<int64_t> shape;
    std::vector<Piece> pieces;
  };
  int64_t step = 0;  // steps taken
  std::string entry; // function of the program
  std::vector<std::string> command;
  DataState data;
  int64_t bytes = 0; // of the file of the tensors
  std::vector<Entry> tensors;
};

[[nodiscard]] std::string manifestJson(const CheckpointManifest&);
// Errors (Input) complete "'PATH' is not a valid manifest: ": not JSON of this form, another format, pieces
// that do not tile their tensor exactly.
[[nodiscard]] Result<CheckpointManifest> parseCheckpointManifest(std::string_view json);

// A checkpoint opened for reading.
class Checkpoint {
public:
  // `folder` is that of one checkpoint. Reads the manifest and the header of the file. Error (Input): they do not fit.
  [[nodiscard]] static Result<Checkpoint> open(const std::string& folder);
  [[nodiscard]] const CheckpointManifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }
  // Compares the pieces with their hashes, or only this process's share of them. Error (Input): the first that differs.
  [[nodiscard]] Status verify(ReaderShare share = {}) const;
  // A tensor, of which each device reads its shard.
  [[nodiscard]] const TensorSource& source(const CheckpointManifest::Entry&) const;

private:
  std::string folder_;
  CheckpointManifest manifest_;
  std::vector<TensorSource> sources_; // of the manifest's tensors
};

// A folder of checkpoints.
class CheckpointFolder : NonCopyable {
public:
  struct Found {
    int64_t step = 0;
    std::string path;
  };
  // The complete ones, by step. A folder that does not exist has none. Error (Input): not a folder.
  [[nodiscard]] static Result<std::vector<Found>> list(const std::string& folder);
  // Those whose manifest was removed or lost, so that they are not checkpoints.
  [[nodiscard]] static Result<std::vector<Found>> incomplete(const std::string& folder);
  // For writing: creates the folder, locks it against other runs, and removes what a killed run left behind.
  // Errors: (Usage) another run writes to it; (Machine) it cannot be created.
  [[nodiscard]] static Result<std::unique_ptr<CheckpointFolder>> open(const std::string& folder);
  ~CheckpointFolder();

  // The folder for a process that does not lead the group of writers; another process has opened it.
  [[nodiscard]] static std::unique_ptr<CheckpointFolder> joined(const std::string& folder);

  // Writes a checkpoint; `manifest` has no tensors yet. Then removes all but the newest `keep`. All processes of the
  // group call it. Error (Machine): nothing is left behind, and the older ones are kept.
  [[nodiscard]] Status write(CheckpointManifest manifest, const std::vector<PiecedTensor>& tensors,
                             size_t keep, WriterGroup& group) const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string pathOf(int64_t step) const;

private:
  CheckpointFolder(std::string path, int lock, bool created)
      : path_(std::move(path)), lock_(lock), created_(created) {}
  std::string path_;
  int lock_;     // -1: of another process
  bool created_; // the folder is this run's
};

// The checkpoints of a folder, which is that of a run or of a single one.
[[nodiscard]] Result<std::vector<CheckpointFolder::Found>> checkpointsIn(const std::string& folder);
// The newest of them, or that after a step; not compared with its hashes yet. Error (Input): there is none.
[[nodiscard]] Result<Checkpoint> chosenCheckpoint(const std::string& folder, int64_t step = -1);
// The tensors of the newest one, of which this process's share is compared with their hashes.
[[nodiscard]] Result<std::unique_ptr<TensorArchive>> openCheckpointTensors(const std::string& folder,
                                                                           ReaderShare share = {});

} // namespace dtc
