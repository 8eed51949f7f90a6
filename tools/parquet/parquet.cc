/* tools/parquet/parquet.cc - pfw-parquet: what `pfw export --format parquet -o DIR` runs, by Arrow's C++ library.
 *
 * A program of its own, so that `pfw` needs no C++.  It writes what bindings/python/pfw/parquet.py writes,
 * which is there where this one is not built; bindings/python/tests/test_parquet.py tests both.
 */
#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/compute/api_vector.h>
#include <arrow/io/file.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <getopt.h>
#include <map>
#include <optional>
#include <unistd.h>

#include "pfw/read.h"

namespace fs = std::filesystem;
using arrow::RecordBatch;
using arrow::Result;
using arrow::Status;
using rank_number = std::optional<int64_t>;

/* Of a row group, and that wait for theirs, of all ranks; ranks whose files are open: as in parquet.py. */
static constexpr int64_t group_rows = 122880, waiting_rows = 4 * group_rows;
static constexpr size_t open_most = 32;

/* Hive's name for null. */
static constexpr char no_rank[] = "rank=__HIVE_DEFAULT_PARTITION__";
static constexpr size_t problems_shown = 10;

/* ---- reading ---- */

static struct pfw_read *volatile reading;
static volatile sig_atomic_t ended_by;

static void end_reading(int number)
{
	struct pfw_read *read = reading;

	ended_by = number;
	if (read)
		pfw_read_stop(read);
}

struct words {
	std::vector<std::pair<std::string, std::string>> conditions;
	std::vector<const char *> paths;
	std::string directory;
	bool force = false;
};

/* A reader of what the words say, as long as it is in scope. */
struct reader {
	struct pfw_read *read = pfw_read_new();

	reader()
	{
		reading = read;
	}
	~reader()
	{
		reading = nullptr;
		pfw_read_free(read);
	}
	reader(const reader &) = delete;

	Status check(int error) const
	{
		return error ? Status::Invalid(read ? pfw_read_error(read) : strerror(ENOMEM))
			     : Status::OK();
	}

	Status set(const std::string &option, const std::string &value)
	{
		return check(pfw_read_set(read, option.c_str(), value.c_str()));
	}

	Result<std::shared_ptr<arrow::RecordBatchReader>> open(const words &words)
	{
		struct ArrowArrayStream stream;

		ARROW_RETURN_NOT_OK(check(read ? 0 : -ENOMEM));
		for (const char *path : words.paths)
			ARROW_RETURN_NOT_OK(check(pfw_read_path(read, path)));
		for (const auto &[option, value] : words.conditions)
			ARROW_RETURN_NOT_OK(set(option, value));
		ARROW_RETURN_NOT_OK(check(pfw_read_stream(read, &stream)));
		return arrow::ImportRecordBatchReader(&stream);
	}
};

/* Whether a line has a rank: readers of the directories of ranks could not tell the type of nulls alone. */
static Result<bool> has_ranks(const words &words)
{
	class reader reader;
	bool asked = false;

	ARROW_RETURN_NOT_OK(reader.set("columns", "rank"));
	for (const auto &[option, value] : words.conditions)
		asked |= option == "rank";
	if (!asked)
		ARROW_RETURN_NOT_OK(reader.set("rank", "0-4294967295"));
	ARROW_ASSIGN_OR_RAISE(auto batches, reader.open(words));
	ARROW_ASSIGN_OR_RAISE(auto batch, batches->Next());
	return batch != nullptr;
}

/* ---- files ---- */

static Status sync_directory(const fs::path &path)
{
	int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = fd < 0 || fsync(fd);
	std::string why = strerror(errno);

	if (fd >= 0)
		close(fd);
	return failed ? Status::IOError(path.string(), ": ", why) : Status::OK();
}

/* Columns whose values hardly repeat: their differences take half of the room, and less time than a
 * dictionary.  A dur has neither.  bindings/python/pfw/parquet.py has the same. */
static std::shared_ptr<parquet::WriterProperties> properties()
{
	parquet::WriterProperties::Builder made;

	made.compression(arrow::Compression::ZSTD)->disable_dictionary("dur");
	for (std::string name : { "id", "ts", "args.offset", "args.span_id", "args.parent",
				  "args.correlation", "args.external_id", "args.sequence" })
		made.disable_dictionary(name)->encoding(name,
							parquet::Encoding::DELTA_BINARY_PACKED);
	return made.build();
}

/* The files of one rank. */
struct rank_files {
	fs::path directory;
	int parts = 0;
	uint64_t used = 0; /* the newest has the largest */
	int64_t rows = 0;
	arrow::RecordBatchVector waiting;
	std::shared_ptr<arrow::io::FileOutputStream> file;
	std::unique_ptr<parquet::arrow::FileWriter> writer;

	Status open_part(const std::shared_ptr<arrow::Schema> &schema)
	{
		std::string path = directory / ("part-" + std::to_string(parts++) + ".parquet");

		fs::create_directories(directory);
		ARROW_ASSIGN_OR_RAISE(file, arrow::io::FileOutputStream::Open(path));
		ARROW_ASSIGN_OR_RAISE(
			writer,
			parquet::arrow::FileWriter::Open(
				*schema, arrow::default_memory_pool(), file, properties(),
				parquet::ArrowWriterProperties::Builder().store_schema()->build()));
		return Status::OK();
	}

	/* Write what waits, as a row group. */
	Status flush()
	{
		if (waiting.empty())
			return Status::OK();
		ARROW_ASSIGN_OR_RAISE(auto table, arrow::Table::FromRecordBatches(waiting));
		ARROW_ASSIGN_OR_RAISE(table, arrow::DictionaryUnifier::UnifyTable(*table));
		if (!writer)
			ARROW_RETURN_NOT_OK(open_part(table->schema()));
		ARROW_RETURN_NOT_OK(
			writer->WriteTable(*table, std::max<int64_t>(table->num_rows(), 1)));
		waiting.clear();
		rows = 0;
		return Status::OK();
	}

	/* Finish the file; lines that come later go into another one. */
	Status close()
	{
		ARROW_RETURN_NOT_OK(flush());
		if (!writer)
			return Status::OK();
		ARROW_RETURN_NOT_OK(writer->Close());
		writer.reset();
		if (fsync(file->file_descriptor()))
			return Status::IOError(strerror(errno));
		return file->Close();
	}
};

/* The ranks of a run, of which some have open files. */
struct all_ranks {
	fs::path directory;
	std::map<rank_number, rank_files> of;
	int64_t rows = 0; /* waiting */
	uint64_t uses = 0;

	Status flush(rank_files &one)
	{
		rows -= one.rows;
		return one.flush();
	}

	Status close(rank_files &one)
	{
		rows -= one.rows;
		return one.close();
	}

	Status close_oldest()
	{
		rank_files *oldest = nullptr;
		size_t opened = 0;

		for (auto &[rank, one] : of) {
			opened += one.writer != nullptr;
			if (one.writer && (!oldest || one.used < oldest->used))
				oldest = &one;
		}
		return opened > open_most ? close(*oldest) : Status::OK();
	}

	Status add(rank_number rank, const std::shared_ptr<RecordBatch> &batch)
	{
		rank_files &one = of[rank];

		if (one.directory.empty())
			one.directory =
				directory / (rank ? "rank=" + std::to_string(*rank) : no_rank);
		one.used = ++uses;
		one.waiting.push_back(batch);
		one.rows += batch->num_rows();
		rows += batch->num_rows();
		if (one.rows >= group_rows) {
			ARROW_RETURN_NOT_OK(flush(one));
		} else if (rows >= waiting_rows) {
			auto less = [](const auto &a, const auto &b) {
				return a.second.rows < b.second.rows;
			};

			ARROW_RETURN_NOT_OK(
				flush(std::max_element(of.begin(), of.end(), less)->second));
		}
		return close_oldest();
	}

	Status close()
	{
		for (auto &[rank, one] : of)
			ARROW_RETURN_NOT_OK(close(one));
		for (auto &[rank, one] : of)
			ARROW_RETURN_NOT_OK(sync_directory(one.directory));
		return sync_directory(directory);
	}
};

/* Add the rows of each rank: mostly all are of one. */
static Status add_by_rank(all_ranks &ranks, const std::shared_ptr<RecordBatch> &batch)
{
	int place = batch->schema()->GetFieldIndex("rank");
	const auto &column = static_cast<const arrow::Int64Array &>(*batch->column(place));
	auto rank_of = [&](int64_t row) {
		return column.IsNull(row) ? rank_number() : rank_number(column.Value(row));
	};
	std::vector<rank_number> found;

	ARROW_ASSIGN_OR_RAISE(auto rest, batch->RemoveColumn(place));
	for (int64_t row = 0; row < batch->num_rows(); row++) {
		rank_number rank = rank_of(row);

		if (found.empty() || (rank != found.back() &&
				      std::find(found.begin(), found.end(), rank) == found.end()))
			found.push_back(rank);
	}
	if (found.size() == 1)
		return ranks.add(found[0], rest);
	for (rank_number rank : found) {
		arrow::BooleanBuilder mask;
		std::shared_ptr<arrow::Array> wanted;

		for (int64_t row = 0; row < batch->num_rows(); row++)
			ARROW_RETURN_NOT_OK(mask.Append(rank_of(row) == rank));
		ARROW_RETURN_NOT_OK(mask.Finish(&wanted));
		ARROW_ASSIGN_OR_RAISE(auto rows, arrow::compute::Filter(rest, wanted));
		ARROW_RETURN_NOT_OK(ranks.add(rank, rows.record_batch()));
	}
	return Status::OK();
}

static Status fill(const fs::path &directory, const words &words, reader &reader)
{
	struct all_ranks ranks;
	std::shared_ptr<RecordBatch> batch;

	ranks.directory = directory;
	ARROW_ASSIGN_OR_RAISE(bool ranked, has_ranks(words));
	reading = reader.read;
	ARROW_ASSIGN_OR_RAISE(auto batches, reader.open(words));
	if (!ranked) {
		ranks.of[rank_number()].directory = directory;
		/* A table without rows has its columns, too. */
		ARROW_ASSIGN_OR_RAISE(batch, RecordBatch::MakeEmpty(batches->schema()));
		ARROW_RETURN_NOT_OK(ranks.add(rank_number(), batch));
	}
	for (;;) {
		ARROW_ASSIGN_OR_RAISE(batch, batches->Next());
		if (!batch || ended_by)
			break;
		ARROW_RETURN_NOT_OK(ranked ? add_by_rank(ranks, batch)
					   : ranks.add(rank_number(), batch));
	}
	return ended_by ? Status::Cancelled("") : ranks.close();
}

/* ---- the directory ---- */

/* Whether nothing else is in it. */
static bool is_export(const fs::path &path, bool top = true)
{
	if (fs::is_symlink(path) || !fs::is_directory(path))
		return false;
	for (const fs::directory_entry &entry : fs::directory_iterator(path)) {
		std::string name = entry.path().filename();
		bool part = name.starts_with("part-") && name.ends_with(".parquet");

		if (!part && !(top && name.starts_with("rank=") && is_export(entry.path(), false)))
			return false;
	}
	return true;
}

/* A new directory beside `path`, for its owner only. */
static Result<fs::path> directory_beside(const fs::path &path, const char *suffix)
{
	std::string name = path.parent_path() / ("." + path.filename().string() + ".XXXXXX");

	if (!mkdtemp(name.data()))
		return Status::IOError(path.string(), ": ", strerror(errno));
	fs::rename(name, name + suffix);
	return name + suffix;
}

/* Give it its name; what had the name before goes only when that is done. */
static Status put(const fs::path &made, const fs::path &path)
{
	std::error_code error;
	fs::path older;

	if (fs::exists(fs::symlink_status(path))) {
		ARROW_ASSIGN_OR_RAISE(older, directory_beside(path, ".old"));
		fs::rename(path, older / "it");
	}
	fs::rename(made, path, error);
	if (error) {
		if (!older.empty()) {
			fs::rename(older / "it", path);
			fs::remove(older);
		}
		return Status::IOError(path.string(), ": ", error.message());
	}
	ARROW_RETURN_NOT_OK(sync_directory(path.parent_path()));
	fs::remove_all(older, error);
	return Status::OK();
}

static Status write(const words &words, reader &reader)
{
	fs::path path = fs::absolute(words.directory).lexically_normal();
	std::error_code ignored;
	Status status;

	if (!path.has_filename()) /* behind a slash at the end */
		path = path.parent_path();
	if (fs::exists(fs::symlink_status(path)) && !(words.force && is_export(path)))
		return Status::Invalid(words.directory, " is there: ",
				       words.force ? "and is not an export to Parquet"
						   : "--force replaces it");
	if (!fs::is_directory(path.parent_path()))
		return Status::Invalid(words.directory,
				       ": there is no such directory to make it in");

	ARROW_ASSIGN_OR_RAISE(fs::path made, directory_beside(path, ".tmp"));
	try {
		status = fill(made, words, reader);
		if (status.ok())
			status = put(made, path);
	} catch (const fs::filesystem_error &error) {
		status = Status::IOError(error.what());
	}
	fs::remove_all(made, ignored);
	return status;
}

/* ---- pfw export --format parquet ---- */

static const struct option options[] = {
	{ "format", 1, nullptr, '.' },	 { "output", 1, nullptr, 'o' },
	{ "since", 1, nullptr, ':' },	 { "until", 1, nullptr, ':' },
	{ "min-dur", 1, nullptr, ':' },	 { "cat", 1, nullptr, 'c' },
	{ "name", 1, nullptr, 'n' },	 { "fname", 1, nullptr, 'f' },
	{ "rank", 1, nullptr, 'r' },	 { "where", 1, nullptr, 'w' },
	{ "pid", 1, nullptr, ':' },	 { "tid", 1, nullptr, ':' },
	{ "step", 1, nullptr, ':' },	 { "jobs", 1, nullptr, 'j' },
	{ "all-runs", 0, nullptr, ':' }, { "force", 0, nullptr, '!' },
	{ "quiet", 0, nullptr, 'q' },	 { nullptr, 0, nullptr, 0 }
};

/* Add the option to the words: false: there is no such. */
static bool take(words &words, int letter, int index)
{
	if (letter == 'o')
		words.directory = optarg;
	else if (letter == '!')
		words.force = true;
	else if (letter == '?')
		return false;
	else if (letter != '.' && letter != 'q') {
		for (index = letter == ':' ? index : 0;
		     letter != ':' && options[index].val != letter;)
			index++;
		words.conditions.emplace_back(options[index].name, optarg ? optarg : "1");
	}
	return true;
}

static int refuse(const std::string &why)
{
	fprintf(stderr, "pfw export: %s\n", why.c_str());
	return 2;
}

int main(int argc, char **argv)
{
	struct words words;
	class reader reader;
	int letter, index = 0;

	while ((letter = getopt_long(argc, argv, "o:c:n:f:r:w:j:q", options, &index)) != -1) {
		if (!take(words, letter, index))
			return 2;
		optarg = nullptr;
	}
	words.paths.assign(argv + optind, argv + argc);
	if (words.directory.empty() || words.directory == "-")
		return refuse("--format parquet makes a directory: give -o DIR");
	/* Leave no half of it behind. */
	for (int number : { SIGTERM, SIGINT, SIGHUP })
		signal(number, end_reading);
	signal(SIGXFSZ, SIG_IGN);

	Status status = write(words, reader);
	if (ended_by)
		return 128 + ended_by;
	if (!status.ok())
		return refuse(status.message() +
			      (status.detail() ? ": " + status.detail()->ToString() : ""));
	for (size_t i = 0; i < problems_shown && pfw_read_problem(reader.read, i); i++)
		refuse(pfw_read_problem(reader.read, i));
	return pfw_read_problems(reader.read) != 0;
}
