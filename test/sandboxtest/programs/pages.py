import mmap, os, sys
n = int(sys.argv[1])
m = mmap.mmap(-1, n * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
def put(first, end, value):
    for p in range(first, end):
        m[p*4096:(p+1)*4096] = bytes([value]) * 4096
put(0, n, 1)
os.mkfifo("answer"); os.mkfifo("ask")
while True:
    for line in open("ask"):
        word = line.split()
        if word and word[0] == "w":
            put(int(word[1]), int(word[2]), int(word[3]))
        runs = []
        for p in range(n):
            page = m[p*4096:(p+1)*4096]
            v = page[0] if page == page[:1] * 4096 else "bad"
            if runs and runs[-1][0] == v: runs[-1][1] += 1
            else: runs.append([v, 1])
        print(" ".join("%sx%d" % (v, k) for v, k in runs), file=open("answer", "w"))
