/* calls_target.c - make every call of calls.def, in ways that work and ways that fail.
 *
 * calls_target DIR RESULTS EXPECTED: works in DIR (empty, absolute), with standard output in
 * DIR/stdout.  RESULTS gets what the calls returned, EXPECTED what a trace of them must hold.  A row
 * of calls.def that has no case here is an error (3): add the case to the table at the end.
 */
#include "calls_harness.h"
#include "calls_paths.h"
#include "calls_posix.h"
#include "calls_process.h"
#include "calls_stdio.h"

static const struct test_case cases[] = {
	{ "open", "open", "POSIX", case_open_tmpfile },
	{ "open64", "open", "POSIX", case_open_tmpfile },
	{ "__open_2", "open", "POSIX", case_open_2 },
	{ "__open64_2", "open", "POSIX", case_open_2 },
	{ "openat", "openat", "POSIX", case_openat },
	{ "openat64", "openat", "POSIX", case_openat },
	{ "__openat_2", "openat", "POSIX", case_openat_2 },
	{ "__openat64_2", "openat", "POSIX", case_openat_2 },
	{ "creat", "creat", "POSIX", case_creat },
	{ "creat64", "creat", "POSIX", case_creat },
	{ "close", "close", "POSIX", case_close },
	{ "close_range", "close_range", "POSIX", case_close_range },
	{ "closefrom", "closefrom", "POSIX", case_closefrom },
	{ "read", "read", "POSIX", case_read },
	{ "__read_chk", "read", "POSIX", case_read_chk },
	{ "pread", "pread", "POSIX", case_pread },
	{ "pread64", "pread", "POSIX", case_pread },
	{ "__pread_chk", "pread", "POSIX", case_pread_chk },
	{ "__pread64_chk", "pread", "POSIX", case_pread_chk },
	{ "readv", "readv", "POSIX", case_readv },
	{ "preadv", "preadv", "POSIX", case_preadv },
	{ "preadv64", "preadv", "POSIX", case_preadv },
	{ "preadv2", "preadv2", "POSIX", case_preadv2 },
	{ "preadv64v2", "preadv2", "POSIX", case_preadv2 },
	{ "write", "write", "POSIX", case_write },
	{ "pwrite", "pwrite", "POSIX", case_pwrite },
	{ "pwrite64", "pwrite", "POSIX", case_pwrite },
	{ "writev", "writev", "POSIX", case_writev },
	{ "pwritev", "pwritev", "POSIX", case_pwritev },
	{ "pwritev64", "pwritev", "POSIX", case_pwritev },
	{ "pwritev2", "pwritev2", "POSIX", case_pwritev2 },
	{ "pwritev64v2", "pwritev2", "POSIX", case_pwritev2 },
	{ "lseek", "lseek", "POSIX", case_lseek },
	{ "lseek64", "lseek", "POSIX", case_lseek },
	{ "fsync", "fsync", "POSIX", case_fsync },
	{ "fdatasync", "fdatasync", "POSIX", case_fsync },
	{ "ftruncate", "ftruncate", "POSIX", case_ftruncate },
	{ "ftruncate64", "ftruncate", "POSIX", case_ftruncate },
	{ "copy_file_range", "copy_file_range", "POSIX", case_copy_file_range },
	{ "sendfile", "sendfile", "POSIX", case_sendfile },
	{ "sendfile64", "sendfile", "POSIX", case_sendfile },
	{ "stat", "stat", "POSIX", case_stat },
	{ "stat64", "stat", "POSIX", case_stat },
	{ "lstat", "lstat", "POSIX", case_stat },
	{ "lstat64", "lstat", "POSIX", case_stat },
	{ "fstat", "fstat", "POSIX", case_fstat },
	{ "fstat64", "fstat", "POSIX", case_fstat },
	{ "fstatat", "fstatat", "POSIX", case_fstatat },
	{ "fstatat64", "fstatat", "POSIX", case_fstatat },
	{ "__xstat", "stat", "POSIX", case_xstat },
	{ "__xstat64", "stat", "POSIX", case_xstat },
	{ "__lxstat", "lstat", "POSIX", case_xstat },
	{ "__lxstat64", "lstat", "POSIX", case_xstat },
	{ "__fxstat", "fstat", "POSIX", case_fxstat },
	{ "__fxstat64", "fstat", "POSIX", case_fxstat },
	{ "__fxstatat", "fstatat", "POSIX", case_fstatat },
	{ "__fxstatat64", "fstatat", "POSIX", case_fstatat },
	{ "statx", "statx", "POSIX", case_statx },
	{ "access", "access", "POSIX", case_access },
	{ "faccessat", "faccessat", "POSIX", case_faccessat },
	{ "eaccess", "eaccess", "POSIX", case_access },
	{ "euidaccess", "eaccess", "POSIX", case_access },
	{ "readlink", "readlink", "POSIX", case_readlink },
	{ "__readlink_chk", "readlink", "POSIX", case_readlink },
	{ "readlinkat", "readlinkat", "POSIX", case_readlink },
	{ "__readlinkat_chk", "readlinkat", "POSIX", case_readlink },
	{ "rename", "rename", "POSIX", case_rename },
	{ "renameat", "renameat", "POSIX", case_renameat },
	{ "renameat2", "renameat2", "POSIX", case_renameat2 },
	{ "link", "link", "POSIX", case_link },
	{ "linkat", "linkat", "POSIX", case_linkat },
	{ "symlink", "symlink", "POSIX", case_symlink },
	{ "symlinkat", "symlinkat", "POSIX", case_symlinkat },
	{ "unlink", "unlink", "POSIX", case_unlink },
	{ "remove", "remove", "POSIX", case_unlink },
	{ "unlinkat", "unlinkat", "POSIX", case_unlinkat },
	{ "rmdir", "rmdir", "POSIX", case_rmdir },
	{ "mkdir", "mkdir", "POSIX", case_mkdir },
	{ "mkdirat", "mkdirat", "POSIX", case_mkdirat },
	{ "opendir", "opendir", "POSIX", case_opendir },
	{ "fdopendir", "fdopendir", "POSIX", case_fdopendir },
	{ "readdir", "readdir", "POSIX", case_readdir_failing },
	{ "readdir64", "readdir", "POSIX", case_readdir_failing },
	{ "closedir", "closedir", "POSIX", case_closedir },
	{ "dup", "dup", "POSIX", case_dup },
	{ "dup2", "dup2", "POSIX", case_dup2 },
	{ "dup3", "dup3", "POSIX", case_dup3 },
	{ "fcntl", "fcntl", "POSIX", case_fcntl },
	{ "fcntl64", "fcntl", "POSIX", case_fcntl },
	{ "mmap", "mmap", "POSIX", case_mmap },
	{ "mmap64", "mmap", "POSIX", case_mmap },
	{ "munmap", "munmap", "POSIX", case_munmap },
	{ "msync", "msync", "POSIX", case_msync },
	{ "fopen", "fopen", "STDIO", case_fopen },
	{ "fopen64", "fopen", "STDIO", case_fopen },
	{ "fdopen", "fdopen", "STDIO", case_fdopen },
	{ "freopen", "freopen", "STDIO", case_freopen },
	{ "freopen64", "freopen", "STDIO", case_freopen },
	{ "fclose", "fclose", "STDIO", case_fclose },
	{ "fread", "fread", "STDIO", case_fread },
	{ "fread_unlocked", "fread", "STDIO", case_fread },
	{ "__fread_chk", "fread", "STDIO", case_fread },
	{ "__fread_unlocked_chk", "fread", "STDIO", case_fread },
	{ "fwrite", "fwrite", "STDIO", case_fwrite },
	{ "fwrite_unlocked", "fwrite", "STDIO", case_fwrite },
	{ "fgets", "fgets", "STDIO", case_fgets },
	{ "fgets_unlocked", "fgets", "STDIO", case_fgets },
	{ "__fgets_chk", "fgets", "STDIO", case_fgets },
	{ "__fgets_unlocked_chk", "fgets", "STDIO", case_fgets },
	{ "getline", "getline", "STDIO", case_getline },
	{ "getdelim", "getdelim", "STDIO", case_getline },
	{ "__getdelim", "getdelim", "STDIO", case_getline },
	{ "fputs", "fputs", "STDIO", case_fputs },
	{ "fputs_unlocked", "fputs", "STDIO", case_fputs },
	{ "printf", "printf", "STDIO", case_printf },
	{ "__printf_chk", "printf", "STDIO", case_printf },
	{ "fprintf", "fprintf", "STDIO", case_fprintf },
	{ "__fprintf_chk", "fprintf", "STDIO", case_fprintf },
	{ "dprintf", "dprintf", "STDIO", case_fprintf },
	{ "__dprintf_chk", "dprintf", "STDIO", case_fprintf },
	{ "vprintf", "vprintf", "STDIO", case_printf },
	{ "__vprintf_chk", "vprintf", "STDIO", case_printf },
	{ "vfprintf", "vfprintf", "STDIO", case_fprintf },
	{ "__vfprintf_chk", "vfprintf", "STDIO", case_fprintf },
	{ "vdprintf", "vdprintf", "STDIO", case_fprintf },
	{ "__vdprintf_chk", "vdprintf", "STDIO", case_fprintf },
	{ "fseek", "fseek", "STDIO", case_fseek },
	{ "fseeko", "fseeko", "STDIO", case_fseek },
	{ "fseeko64", "fseeko", "STDIO", case_fseek },
	{ "ftell", "ftell", "STDIO", case_ftell },
	{ "ftello", "ftello", "STDIO", case_ftell },
	{ "ftello64", "ftello", "STDIO", case_ftell },
	{ "fflush", "fflush", "STDIO", case_fflush },
	{ "fflush_unlocked", "fflush", "STDIO", case_fflush },
	{ "fork", "fork", "POSIX", case_fork },
	{ "vfork", "vfork", "POSIX", case_vfork },
	{ "posix_spawn", "posix_spawn", "POSIX", case_posix_spawn },
	{ "posix_spawnp", "posix_spawnp", "POSIX", case_posix_spawn },
	{ "execve", "execve", "POSIX", case_exec },
	{ "execv", "execv", "POSIX", case_exec },
	{ "execvp", "execvp", "POSIX", case_exec },
	{ "execvpe", "execvpe", "POSIX", case_exec },
	{ "execl", "execl", "POSIX", case_exec },
	{ "execlp", "execlp", "POSIX", case_exec },
	{ "execle", "execle", "POSIX", case_exec },
	{ "fexecve", "fexecve", "POSIX", case_exec },
	{ "execveat", "execveat", "POSIX", case_exec },
	{ "_exit", "_exit", "POSIX", case_exit },
	{ "_Exit", "_exit", "POSIX", case_exit },
};

static const char *const rows[] = {
#define CALL_FD(category, ret, name, ...) #name,
#define CALL_PATH(category, ret, name, ...) #name,
#define CALL_STREAM(category, ret, name, ...) #name,
#define CALL_BY_HAND(category, ret, name, ...) #name,
#include "../../src/probes/calls.def"
};

/* Begin a row's part of the trace with an event that names it. */
static void mark(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/row/%s", name);
	FN(access)(path, F_OK);
}

static void run_row(const char *name)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].symbol, name))
			continue;
		now = &cases[i];
		mark(name);
		now->run();
		return;
	}
	fail("no case for the row of calls.def", name);
}

static void write_out(const char *path, const struct text *text)
{
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || syscall(SYS_write, fd, text->bytes, text->used) != (long)text->used)
		fail("cannot write", path);
	syscall(SYS_close, fd);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		fail("usage", "calls_target DIR RESULTS EXPECTED");
	dir = argv[1];
	if (chdir(dir) < 0)
		fail("cannot go to", dir);
#ifdef CALLS_LINKED
	pfw_start(NULL);
#endif
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		run_row(rows[i]);
	mark("end");
	write_out(argv[2], &results);
	write_out(argv[3], &expected);
	return 0;
}
