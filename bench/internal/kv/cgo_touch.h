// What the adapters to C libraries share.
#ifndef BROCK_BENCH_TOUCH_H
#define BROCK_BENCH_TOUCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// touch is Touch of kv.go.
static inline uint64_t touch(const void *p, size_t n) {
	const unsigned char *b = p;
	uint64_t sum = 0, word;
	for (; n >= 8; b += 8, n -= 8) {
		memcpy(&word, b, 8);
		sum += word;
	}
	while (n-- > 0) sum += *b++;
	return sum;
}

// tally is what a get or a scan saw; rc is 0 or the library's error.
typedef struct {
	int64_t entries;
	uint64_t sum;
	int rc;
} tally;

// change is one of a packed batch: this head, the key, the value.
typedef struct {
	uint32_t key, value; // lengths
	uint32_t remove;
} change;

#endif
