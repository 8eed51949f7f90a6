/* remove_tree.h - removes a test's directory. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

/* 0, or not: something is left. */
static inline int remove_tree(const char *dir)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}
