/* replay_main.c - run a fuzz target over its corpus without a fuzzer, as a plain test.
 *
 * What a fuzzer found once must never come back unseen where no fuzzer is installed.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * docs/security.rst: memory is linear in the input.  What an input of that many bytes may take, with
 * what every command takes anyway: buffers, caches of compressors, a MiB a line.  Sanitizers have
 * memory of their own, and libFuzzer's limits (tools/check).
 */
#define MEMORY_LEAST_KIB (384l << 10)
#define MEMORY_OF_A_BYTE 256u

#ifdef __has_feature
#define MEASURED (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURED 0
#else
#define MEASURED 1
#endif

/* Whether the memory that was ever used is right for an input of `bytes`, the largest so far. */
static int is_within(size_t bytes)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return !MEASURED ||
	       used.ru_maxrss <= MEMORY_LEAST_KIB + (long)(bytes * MEMORY_OF_A_BYTE >> 10);
}

/*
 * The bytes go into an allocation of exactly their number, so that a sanitizer sees a read past
 * the end.  Return 0 or -errno.
 */
static int replay(const char *path)
{
	static size_t largest;
	FILE *file = fopen(path, "rb");
	struct stat st;
	uint8_t *data;
	int result = 0;

	if (!file)
		return -errno;
	if (fstat(fileno(file), &st) < 0) {
		fclose(file);
		return -EIO;
	}
	data = malloc(st.st_size ? (size_t)st.st_size : 1);
	if (!data || fread(data, 1, (size_t)st.st_size, file) != (size_t)st.st_size)
		result = -EIO;
	else
		LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
	if (!result &&
	    !is_within(st.st_size > (off_t)largest ? largest = (size_t)st.st_size : largest))
		result = -E2BIG;
	free(data);
	fclose(file);
	return result;
}

/* Replay every regular file of directory; return their number, or -1 after saying what failed. */
static int replay_all(const char *directory)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	int count = 0;

	if (!dir) {
		fprintf(stderr, "replay: %s: %s\n", directory, strerror(errno));
		return -1;
	}
	while ((entry = readdir(dir))) {
		char path[4096];
		struct stat st;
		int error;

		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		printf("replay: %s\n", path); /* the last line names the input that crashed */
		fflush(stdout);
		error = replay(path);
		if (error) {
			fprintf(stderr, "replay: %s: %s\n", path, strerror(-error));
			count = -1;
			break;
		}
		count++;
	}
	closedir(dir);
	return count;
}

int main(int argc, char **argv)
{
	int total = 0;

	for (int i = 1; i < argc; i++) {
		int count = replay_all(argv[i]);

		if (count < 0)
			return 1;
		total += count;
	}
	if (!total) {
		fprintf(stderr, "replay: no input in %s: a corpus that is empty tests nothing\n",
			argc > 1 ? argv[1] : "(no directory given)");
		return 1;
	}
	printf("replay: %d inputs\n", total);
	return 0;
}
