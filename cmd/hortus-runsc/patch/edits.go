package main

// module is what is changed, and version the version that the edits were written for.
const (
	module  = "gvisor.dev/gvisor"
	version = "v0.0.0-20260905035102-160fafc42237"
)

// change is what is changed in a file.
type change struct {
	path string
	sum  string // SHA-256 of the original
	// edits are replaced in order. Each old text occurs exactly once.
	edits []edit
}

type edit struct{ old, new string }

// changes are all changes of existing files. The files below _gvisor/ are added.
var changes = []change{
	{"pkg/sentry/pgalloc/pgalloc.go", "b854802cd6cc07fe51c678afa296627f0cc1c9cb05cffcf44e2da2e76201befa", []edit{
		{"\topts MemoryFileOpts\n\n\t// savable is",
			"\topts MemoryFileOpts\n\n\t// bases are what memory refers to. See SetBases.\n\tbases *Bases\n\n\t// frozen is memory that is not written any more. See Freeze.\n\tfrozen frozenMemory\n\n\t// brake slows allocations down beyond the memory limit.\n\tbrake brake\n\n\t// pageUsers are registered by AddPageUser. pageUsersMu protects it.\n\tpageUsersMu sync.Mutex\n\tpageUsers map[PageUser]struct{}\n\n\t// savable is"},
		{"\tfr, err := f.findAllocatableAndMarkUsed(&alloc)\n", "\tif err := f.brake.beforeAllocate(f, length, opts.Kind); err != nil {\n\t\treturn memmap.FileRange{}, err\n\t}\n\tfr, err := f.findAllocatableAndMarkUsed(&alloc)\n"},
		{"\tif at.Execute {\n\t\treturn safemem.BlockSeq{}, linuxerr.EACCES\n\t}\n\n\tif amfl :=",
			"\tif at.Execute {\n\t\treturn safemem.BlockSeq{}, linuxerr.EACCES\n\t}\n\tif err := f.checkInternal(fr, at); err != nil {\n\t\treturn safemem.BlockSeq{}, err\n\t}\n\n\tif amfl :="},
	}},
	{"pkg/sentry/pgalloc/save_restore.go", "61d955f945895c20708d36fdcf981b5f2675f854901ed48eff37cc195466dc81", []edit{
		{"\t\t\tfr.Start = unscannedStart\n\t\t}\n\t\tunscannedStart = fr.End\n",
			"\t\t\tfr.Start = unscannedStart\n\t\t}\n\t\tfrozen, end := f.frozen.prefix(fr)\n\t\tunscannedStart = end\n\t\tif frozen {\n\t\t\tif maseg.End() == unscannedStart {\n\t\t\t\tmaseg = maseg.NextSegment()\n\t\t\t}\n\t\t\tcontinue\n\t\t}\n\t\tfr.End = end\n"},
		{"\t\treturn fmt.Errorf(\"failed to write metadata: %w\", err)\n\t}\n",
			"\t\treturn fmt.Errorf(\"failed to write metadata: %w\", err)\n\t}\n\tif err := f.frozen.write(w); err != nil {\n\t\treturn fmt.Errorf(\"failed to write frozen ranges: %w\", err)\n\t}\n"},
		{"\t\treturn fmt.Errorf(\"failed to import metadata: %w\", err)\n\t}\n",
			"\t\treturn fmt.Errorf(\"failed to import metadata: %w\", err)\n\t}\n\tif err := f.frozen.read(r, f.bases); err != nil {\n\t\treturn fmt.Errorf(\"failed to read frozen ranges: %w\", err)\n\t}\n"},
		{"\t\t\tif !minUnloadedInit {\n\t\t\t\tminUnloadedInit = true\n\t\t\t\tamfl.minUnloaded.Store(maFR.Start)\n\t\t\t}\n\t\t\tamfl.pf.mu.Lock()\n\t\t\tamfl.unloaded.InsertRange(maFR, aplUnloadedInfo{\n\t\t\t\toff: opts.PagesFileOffset,\n\t\t\t})\n\t\t\tamfl.pf.mu.Unlock()\n\t\t\topts.PagesFileOffset += amount\n",
			"\t\t\tfor fr := maFR; fr.Length() != 0; {\n\t\t\t\tfrozen, end := f.frozen.prefix(fr)\n\t\t\t\tpart := memmap.FileRange{fr.Start, end}\n\t\t\t\tfr.Start = end\n\t\t\t\tif frozen {\n\t\t\t\t\tcontinue // it is in a base\n\t\t\t\t}\n\t\t\t\tif !minUnloadedInit {\n\t\t\t\t\tminUnloadedInit = true\n\t\t\t\t\tamfl.minUnloaded.Store(part.Start)\n\t\t\t\t}\n\t\t\t\tamfl.pf.mu.Lock()\n\t\t\t\tamfl.unloaded.InsertRange(part, aplUnloadedInfo{\n\t\t\t\t\toff: opts.PagesFileOffset,\n\t\t\t\t})\n\t\t\t\tamfl.pf.mu.Unlock()\n\t\t\t\tf.bases.add(part, opts.PagesFileOffset)\n\t\t\t\topts.PagesFileOffset += part.Length()\n\t\t\t}\n"},
		{"\t// ar is the pages file. ar is immutable.\n\tar stateio.AsyncReader\n",
			"\t// onDemand is true if only awaited pages are read. See LoadOnDemand.\n\tonDemand atomicbitops.Bool\n\n\t// ar is the pages file. ar is immutable.\n\tar stateio.AsyncReader\n"},
		{"\tapfl.mu.Unlock()\n\tif pending {\n\t\tif logAwaitedLoads {\n",
			"\tapfl.mu.Unlock()\n\tif pending {\n\t\tif apfl.onDemand.Load() {\n\t\t\tapfl.lfStatus.Notify(aplLFPending)\n\t\t}\n\t\tif logAwaitedLoads {\n"},
		{"\t\t// Fill remaining queue with reads for pages with no waiters.\n\t\tif apfl.canEnqueue() {\n",
			"\t\t// Fill remaining queue with reads for pages with no waiters.\n\t\tif apfl.canEnqueue() && !apfl.onDemand.Load() {\n"},
		{"\t\t\tif ev&aplLFDone != 0 {\n\t\t\t\t// Successfully completed all loading for all MemoryFiles.\n",
			"\t\t\tif ev&aplLFDone != 0 && apfl.onDemand.Load() {\n\t\t\t\t// The rest is read when somebody waits for it.\n\t\t\t\tapfl.lfStatus.Ack(aplLFDone)\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tif ev&aplLFDone != 0 {\n\t\t\t\t// Successfully completed all loading for all MemoryFiles.\n"},
	}},
	{"pkg/sentry/mm/pma.go", "d98d08ca948d065297219e2ea4be7684ee38395ebd065b02b48783bc48d51267", []edit{
		{"\t\t\t\t\t\tcopyAR = pseg.Range().Intersect(hugeMaskAR)\n",
			"\t\t\t\t\t\tcopyAR = pseg.Range().Intersect(breakRange(oldpma, ar, hugeMaskAR))\n"},
		{"\tif mm.mf.HasUniqueRef(pseg.fileRange()) {\n",
			"\tif pma.file == memmap.File(mm.mf) && mm.mf.HasUniqueRef(pseg.fileRange()) {\n"},
	}},
	{"pkg/sentry/mm/lifecycle.go", "7046ea5dafcd557dd71a6e44b74722113e6ca4334cad2516c47307484fa8a7c0", []edit{
		{"\t\t// srcpseg.ValuePtr().file == mm.mf since pma.private == true.\n\t\tmm.mf.IncRef(fr, memCgID)\n",
			"\t\t// srcpseg.ValuePtr().file is mm.mf or a base since pma.private == true.\n\t\tpma.file.IncRef(fr, memCgID)\n"},
		{"\t\t\tdontforks = true\n\t\t\tcontinue\n\t\t}\n",
			"\t\t\tdontforks = true\n\t\t\tcontinue\n\t\t}\n\t\tif vma.wipeOnFork {\n\t\t\tdontforks = true // its pmas are not copied\n\t\t}\n"},
		{"\t\t\tif srcvseg.ValuePtr().dontfork {\n", "\t\t\tif v := srcvseg.ValuePtr(); v.dontfork || v.wipeOnFork {\n"},
	}},
	{"pkg/sentry/mm/save_restore.go", "c61ef1fc75f8d3619e2c89759fb6834dd3958d34c7db30c871ded16529dd8771", []edit{
		{"\tvmaIsStack\n)\n", "\tvmaIsStack\n\tvmaWipeOnFork\n)\n"},
		{"\t\tb |= vmaIsStack\n\t}\n", "\t\tb |= vmaIsStack\n\t}\n\tif v.wipeOnFork {\n\t\tb |= vmaWipeOnFork\n\t}\n"},
		{"\t\tv.isStack = true\n\t}\n", "\t\tv.isStack = true\n\t}\n\tif b&vmaWipeOnFork > 0 {\n\t\tv.wipeOnFork = true\n\t}\n"},
		{"\t\tmm.as = as\n\t}\n}\n", "\t\tmm.as = as\n\t}\n\tmm.mf.Bases().OnRebase(mm.rebase)\n}\n"},
		{"func (p *pma) saveFile() checkpoint.ResourceID {\n",
			"func (p *pma) saveFile() checkpoint.ResourceID {\n\tif base, ok := p.file.(*pgalloc.BaseFile); ok {\n\t\tbase.MarkSaved()\n\t\treturn base.ResourceID()\n\t}\n"},
		{"\tmfmap := pgalloc.MemoryFileMapFromContext(ctx)\n\tmf, ok := mfmap[resourceID]\n",
			"\tif pgalloc.IsBaseID(resourceID) {\n\t\tbase := pgalloc.MemoryFileFromContext(ctx).Bases().File(resourceID)\n\t\tif base == nil {\n\t\t\tpanic(fmt.Sprintf(\"can't restore pma because its base %q is missing\", resourceID.Path))\n\t\t}\n\t\tp.file = base\n\t\treturn\n\t}\n\tmfmap := pgalloc.MemoryFileMapFromContext(ctx)\n\tmf, ok := mfmap[resourceID]\n"},
	}},
	{"pkg/sentry/mm/mm.go", "c71249bd6cee8e59c8d2648decd242f2f3aeaf3ee62acbf16a48f29ae85bdfb9", []edit{
		{"\tdontfork bool\n\n\tmlockMode memmap.MLockMode\n",
			"\tdontfork bool\n\n\t// wipeOnFork is the MADV_WIPEONFORK setting for this vma. See wipe.go.\n\twipeOnFork bool `state:\"manual\"`\n\n\tmlockMode memmap.MLockMode\n"},
		{"\t\tdontfork:       v.dontfork,\n", "\t\tdontfork:       v.dontfork,\n\t\twipeOnFork:     v.wipeOnFork,\n"},
	}},
	{"pkg/sentry/mm/vma.go", "0ed37630d57fb9fa43b8f8e5369ffaed0c587b0e3ae6004455a7d7c860f7885b", []edit{
		{"\t\tvma1.dontfork != vma2.dontfork ||\n", "\t\tvma1.dontfork != vma2.dontfork ||\n\t\tvma1.wipeOnFork != vma2.wipeOnFork ||\n"},
	}},
	{"pkg/sentry/syscalls/linux/sys_mmap.go", "ece445c663cf8982e6aac08f7b3bf50732ba180e9cfe3bb17e03116a4c14043f", []edit{
		{"\t\treturn 0, nil, t.MemoryManager().SetDontFork(addr, length, true)\n",
			"\t\treturn 0, nil, t.MemoryManager().SetDontFork(addr, length, true)\n\tcase mm.MADV_WIPEONFORK, mm.MADV_KEEPONFORK:\n\t\treturn 0, nil, t.MemoryManager().SetWipeOnFork(addr, length, adv == mm.MADV_WIPEONFORK)\n"},
	}},
	{"pkg/sentry/kernel/kernel.go", "87898d06099f646c40705a7d1fee0496e1ba0db198f1213dad7b6c18cba3ddef", []edit{
		{"\t\t\treturn fmt.Errorf(\"failed to invalidate unsavable mappings: %v\", err)\n\t\t}\n\n\t\t// Capture all private memory files.\n",
			"\t\t\treturn fmt.Errorf(\"failed to invalidate unsavable mappings: %v\", err)\n\t\t}\n\t\tif err := k.beginBases(ctx); err != nil {\n\t\t\treturn fmt.Errorf(\"failed to prepare private memory: %w\", err)\n\t\t}\n\n\t\t// Capture all private memory files.\n"},
		{"\t\ttimeline.Reached(\"Main MemoryFile loading started\")\n\t}\n\n\tk.Timekeeper().SetClocks(clocks, k.vdsoParams)\n\n\tif timeReady != nil {\n\t\tclose(timeReady)\n\t}\n\n\tif s :=",
			"\t\ttimeline.Reached(\"Main MemoryFile loading started\")\n\t\tif b := k.mf.Bases(); b != nil {\n\t\t\tb.Rebase(k.mf)\n\t\t\ttimeline.Reached(\"Private memory refers to bases\")\n\t\t}\n\t}\n\tk.wipeRestored()\n\tk.mf.DropHeld()\n\n\tk.Timekeeper().SetClocks(clocks, k.vdsoParams)\n\n\tif timeReady != nil {\n\t\tclose(timeReady)\n\t}\n\n\tif s :="},
	}},
	{"pkg/sentry/kernel/kernel_restore.go", "08bde6e6b83979de584991889299813f0f4d57736342765065289e5ddb70b6ae", []edit{
		{"\tapfl, err := pgalloc.StartAsyncPagesFileLoad(pagesFile, func(err error) {\n\t\tdefer mfl.loadWg.Done()\n\t\tmfl.loadErr = err\n\t}, timeline) // transfers ownership of pagesFile\n\tif err != nil {\n\t\tmfl.loadWg.Done()\n",
			"\tvar loaded sync.Once\n\tdone := func(err error) {\n\t\tloaded.Do(func() {\n\t\t\tdefer mfl.loadWg.Done()\n\t\t\tmfl.loadErr = err\n\t\t})\n\t}\n\tloading := timeline\n\tif mainMF.Bases() != nil {\n\t\tloading = nil // what is loaded on demand does not end\n\t}\n\tapfl, err := pgalloc.StartAsyncPagesFileLoad(pagesFile, done, loading) // transfers ownership of pagesFile\n\tif err == nil && mainMF.Bases() != nil {\n\t\t// What nobody waits for is never loaded, so there is nothing to wait for.\n\t\tapfl.LoadOnDemand()\n\t\tcu.Add(func() { done(nil) })\n\t}\n\tif err != nil {\n\t\tdone(nil)\n"},
		{"\tTimeline:  timeline,\n\t}\n\t// Note that we depend on opts.PagesFileOffset",
			"\tTimeline:  loading,\n\t}\n\t// Note that we depend on opts.PagesFileOffset"},
	}},
	{"runsc/boot/controller.go", "19b75b6c07ec95ed29da96e82a9f2fe9b2abde2ef59bd974df87676f44174bac", []edit{
		{"\tHaveDeviceFile bool\n\tBackground     bool\n\n\t// If UseCheckpointGofer is true, the first file in FilePayload is a Unix\n",
			"\tHaveDeviceFile bool\n\tBackground     bool\n\n\t// Bases are the names of the pages files that private memory refers to\n\t// instead of being loaded. See restoreBases.\n\tBases []string\n\n\t// If UseCheckpointGofer is true, the first file in FilePayload is a Unix\n"},
		{"\ttimer.Reached(\"created MemoryFile\")\n\n\tif o.HavePagesFile {\n",
			"\ttimer.Reached(\"created MemoryFile\")\n\tif err := o.restoreBases(cm.restorer.mainMF); err != nil {\n\t\treturn err\n\t}\n\n\tif o.HavePagesFile {\n"},
		{"\t\tstateio.NewPagesFileFDReaderDefault(int32(pagesFile.Release())),\n",
			"\t\to.pagesReader(int32(pagesFile.Release())),\n"},
	}},
	{"pkg/sentry/fsutil/file_range_set.go", "2cf67e5190ef3b451fc1d10b18e501ab130ed09f058423e88c1ce07f9bfe21e5", []edit{
		{"\ts.RemoveRangeWith(mr, func(seg FileRangeIterator) {\n\t\tmf.DecRef(seg.FileRange())\n",
			"\ts.RemoveRangeWith(mr, func(seg FileRangeIterator) {\n\t\tmf.DropAt(seg.FileRange())\n"},
		{"\tfor seg := s.FirstSegment(); seg.Ok(); seg = seg.NextSegment() {\n\t\tmf.DecRef(seg.FileRange())\n",
			"\tfor seg := s.FirstSegment(); seg.Ok(); seg = seg.NextSegment() {\n\t\tmf.DropAt(seg.FileRange())\n"},
		{"\t\tfor seg.Ok() {\n\t\t\tmf.DecRef(seg.FileRange())\n", "\t\tfor seg.Ok() {\n\t\t\tmf.DropAt(seg.FileRange())\n"},
	}},
	{"pkg/sentry/fsimpl/tmpfs/tmpfs.go", "fae1aadeed429afc328255b850153c79e90b0daefe32b4ccabb5bc9e3cefb36d", []edit{
		{"\t\t\timpl.inode.fs.unaccountPages(pagesDec)\n", "\t\t\timpl.inode.fs.unaccountPages(pagesDec)\n\t\t\timpl.dropPages()\n"},
	}},
	{"pkg/sentry/fsimpl/tmpfs/tmpfs_state_autogen.go", "6555f87a9a7475435db5ee5d1be5158e4570fb563f6d2a47149cf78b827862ce", []edit{
		{"func (rf *regularFile) afterLoad(context.Context) {}\n\n", ""},
		{"\tstateSourceObject.Load(8, &rf.huge)\n\tstateSourceObject.Load(9, &rf.size)\n",
			"\tstateSourceObject.Load(8, &rf.huge)\n\tstateSourceObject.Load(9, &rf.size)\n\tstateSourceObject.AfterLoad(func() { rf.afterLoad(ctx) })\n"},
	}},
	{"pkg/sentry/fsimpl/tmpfs/regular_file.go", "39e8b25a7cdebcef9153e6023018ba027f4cc6084d1efba912750892f84e89ed", []edit{
		{"\tdata fsutil.FileRangeSet\n\n",
			"\tdata fsutil.FileRangeSet\n\n\t// unshare is true if the file may be written through a mapping. See base.go. It is\n\t// protected by dataMu, and changes only with mapsMu locked as well.\n\tunshare bool `state:\"nosave\"`\n\n\t// pageUserOf is where the file is registered. See usePages. It is immutable.\n\tpageUserOf *pgalloc.MemoryFile `state:\"nosave\"`\n\n"},
		{"\tfile.inode.nlink = atomicbitops.FromUint32(1) // from parent directory\n",
			"\tfile.inode.nlink = atomicbitops.FromUint32(1) // from parent directory\n\tfile.usePages(fs.mf)\n"},
		{"\trf.size.Store(newSize)\n\trf.dataMu.Unlock()\n\n\t// Invalidate past translations of truncated pages.\n",
			"\t// The rest of the last page becomes zero.\n\tvar copied memmap.MappableRange\n\tif last := hostarch.PageRoundDown(newSize); last != newSize {\n\t\tvar err error\n\t\tif copied, err = rf.copyShared(memmap.MappableRange{last, last + hostarch.PageSize}, 0 /* memCgID */); err != nil {\n\t\t\trf.dataMu.Unlock()\n\t\t\trf.invalidateCopied(copied)\n\t\t\treturn err\n\t\t}\n\t}\n\n\trf.size.Store(newSize)\n\trf.dataMu.Unlock()\n\trf.invalidateCopied(copied)\n\n\t// Invalidate past translations of truncated pages.\n"},
		{"\trf.dataMu.RLock()\n\tdefer rf.dataMu.RUnlock()\n\n\t// Reject writable mapping if F_SEAL_WRITE is set.\n\tif rf.seals&linux.F_SEAL_WRITE != 0 && writable {\n\t\treturn linuxerr.EPERM\n\t}\n",
			"\trf.dataMu.RLock()\n\tseals := rf.seals // AddSeals needs mapsMu as well\n\trf.dataMu.RUnlock()\n\n\t// Reject writable mapping if F_SEAL_WRITE is set.\n\tif seals&linux.F_SEAL_WRITE != 0 && writable {\n\t\treturn linuxerr.EPERM\n\t}\n\tif writable {\n\t\trf.beginUnshare()\n\t}\n"},
		{"\t\tif rf.writableMappingPages > pagesBefore {\n\t\t\tpanic(fmt.Sprintf(\"Underflow while unmapping potentially writable pages pointing to a tmpfs file. Before %v, after %v\", pagesBefore, rf.writableMappingPages))\n\t\t}\n",
			"\t\tif rf.writableMappingPages > pagesBefore {\n\t\t\tpanic(fmt.Sprintf(\"Underflow while unmapping potentially writable pages pointing to a tmpfs file. Before %v, after %v\", pagesBefore, rf.writableMappingPages))\n\t\t}\n\t\tif rf.writableMappingPages == 0 {\n\t\t\trf.endUnshare()\n\t\t}\n"},
		{"\tvar ts []memmap.Translation\n\tvar translatedEnd uint64\n\tfor seg := rf.data.FindSegment(required.Start); seg.Ok() && seg.Start() < required.End; seg, _ = seg.NextNonEmpty() {\n\t\tsegMR := seg.Range().Intersect(translateRange)\n\t\tts = append(ts, memmap.Translation{\n\t\t\tSource: segMR,\n\t\t\tFile:   rf.inode.fs.mf,\n\t\t\tOffset: seg.FileRangeOf(segMR).Start,\n\t\t\tPerms:  hostarch.AnyAccess,\n\t\t})\n\t\ttranslatedEnd = segMR.End\n\t}\n",
			"\tts, translatedEnd, uerr := rf.translations(required, fillRange, translateRange, at, memCgID)\n\tif uerr != nil {\n\t\tcerr = uerr\n\t}\n"},
		{"\t// Perform the write.\n\trw := getRegularFileReadWriter(",
			"\tif err := f.unshareToWrite(uint64(offset), uint64(offset+srclen), pgalloc.MemoryCgroupIDFromContext(ctx)); err != nil {\n\t\treturn 0, offset, err\n\t}\n\n\t// Perform the write.\n\trw := getRegularFileReadWriter("},
		{"\t\t\tims, err := rw.file.inode.fs.mf.MapInternal(seg.FileRangeOf(seg.Range().Intersect(mr)), hostarch.Read)\n",
			"\t\t\tims, err := rw.file.inode.fs.mf.ReadAt(seg.FileRangeOf(seg.Range().Intersect(mr)))\n"},
	}},
	// Most of the time for which a fork pauses a sandbox with many files is the encoding of its objects.
	{"pkg/state/encode.go", "176f4e687b3fd4549cc9149ebd8cd9ccff3af077fc3cf8ebe303a27012df093e", []edit{
		{"\trefs []*wire.Ref\n\n\tdeferredEntry\n", "\trefs []*wire.Ref\n\n\t// structs are the addressable structs of the object.\n\tstructs structRange\n\n\tdeferredEntry\n"},
		{"\tencodedStructs map[reflect.Value]*wire.Struct\n", "\tencodedStructs map[reflect.Value]*wire.Struct // those that are not addressable\n\taddressable encodedStructs\n"},
		{"\t\t\tdelete(es.pending, existing.id)\n\t\t\tes.deferred.Remove(existing)\n",
			"\t\t\toes.structs.contains = append(oes.structs.contains, existing)\n\t\t\tdelete(es.pending, existing.id)\n\t\t\tes.deferred.Remove(existing)\n"},
		{"\tif s, ok := es.encodedStructs[obj]; ok {\n\t\t*dest = s\n\t\treturn\n\t}\n\ts := &wire.Struct{}\n\t*dest = s\n\tes.encodedStructs[obj] = s\n",
			"\ts := (*wire.Struct)(nil)\n\tif obj.CanAddr() {\n\t\ts = es.addressable.find(obj)\n\t} else {\n\t\ts = es.encodedStructs[obj]\n\t}\n\tif s != nil {\n\t\t*dest = s\n\t\treturn\n\t}\n\ts = &wire.Struct{}\n\t*dest = s\n\tif obj.CanAddr() {\n\t\tes.addressable.add(obj, s)\n\t} else {\n\t\tes.encodedStructs[obj] = s\n\t}\n"},
		{"\tes.stats.start(te.ID)\n\tdefer es.stats.done()\n", ""}, // the statistics are logged, and nobody reads them
		{"\t\t\tes.encodeObject(oes.obj, oes.how, &oes.encoded)\n\t\t}\n",
			"\t\t\tes.addressable.begin(oes)\n\t\t\tes.encodeObject(oes.obj, oes.how, &oes.encoded)\n\t\t\tes.addressable.end(oes)\n\t\t}\n"},
	}},
	// Most of the time in which a child starts, its kernel decodes objects: see pkg/state/wire/slab.go.
	{"pkg/state/wire/wire.go", "b9a2eea2864b6e51d95eb2a5e37c5b9fe565abdd372226138b59aa72ebb9d780", []edit{
		{"\tio.Reader\n\n\tbuf [1]byte\n",
			"\tio.Reader\n\n\tbuf [1]byte\n\n\t// bytes is Reader, if it reads single bytes.\n\tbytes io.ByteReader\n\n\tslabs slabs\n"},
		{"func (r *Reader) readByte() byte {\n",
			"func (r *Reader) readByte() byte {\n\tif r.readsBytes() {\n\t\tb, err := r.bytes.ReadByte()\n\t\tif err != nil {\n\t\t\tpanic(err)\n\t\t}\n\t\treturn b\n\t}\n"},
		{"\tref.Dots = make([]Dot, l)\n",
			"\tif l != 0 {\n\t\tref.Dots = make([]Dot, l)\n\t}\n"},
		{"\tref := loadRef(r)\n\treturn &ref\n",
			"\tref := r.slabs.refs.New()\n\t*ref = loadRef(r)\n\treturn ref\n"},
		{"\ts := loadSlice(r)\n\treturn &s\n",
			"\ts := r.slabs.slices.New()\n\t*s = loadSlice(r)\n\treturn s\n"},
		{"\ta := loadArray(r)\n\treturn &a\n",
			"\ta := r.slabs.arrays.New()\n\t*a = loadArray(r)\n\treturn a\n"},
		{"\ti := loadInterface(r)\n\treturn &i\n",
			"\ti := r.slabs.interfaces.New()\n\t*i = loadInterface(r)\n\treturn i\n"},
		{"\tm := loadMultipleObjects(r)\n\treturn &m\n",
			"\tm := r.slabs.fields.New()\n\t*m = loadMultipleObjects(r)\n\treturn m\n"},
		{"\ts := loadStruct(r)\n\treturn &s\n",
			"\ts := r.slabs.structs.New()\n\t*s = loadStruct(r)\n\treturn s\n"},
		{"\tcontents := make([]Object, l)\n",
			"\tcontents := r.slabs.objects.Slice(int(l))\n"},
		{"\tm := make(multipleObjects, l)\n",
			"\tm := multipleObjects(r.slabs.objects.Slice(int(l)))\n"},
	}},
	{"pkg/state/decode.go", "90fc8363c5c0e20df3c4053a66be3aae6d8f99599f0eb3a30d90529a5eeefeaf", []edit{
		{"\t// stats tracks time data.\n\tstats Stats\n}\n",
			"\t// states allocates objectsByID.\n\tstates wire.Slab[objectDecodeState]\n\n\t// stats tracks time data.\n\tstats Stats\n}\n"},
		// The statistics are logged, and nobody reads them.
		{"\t// Track stats if relevant.\n\tif ods.callbacks != nil && ods.typ != 0 {\n\t\tds.stats.start(ods.typ)\n\t\tdefer ds.stats.done()\n\t}\n\n",
			""},
		{"\tds.stats.start(ods.typ)\n\tdefer ds.stats.done()\n\tif sl, ok",
			"\tif sl, ok"},
		{"\tods := &objectDecodeState{\n\t\tid:  id,\n\t\tobj: obj,\n\t}\n",
			"\tods := ds.states.New()\n\tods.id, ods.obj = id, obj\n"},
		{"\t\t\t\t\tds.decodeObject(ods, ods.obj, encoded)\n\t\t\t\t} else {\n",
			"\t\t\t\t\tds.decodeObject(ods, ods.obj, encoded)\n\t\t\t\t\tds.r.Rewind()\n\t\t\t\t} else {\n"},
		{"\t\t\t\t\tds.deferred[id] = encoded\n",
			"\t\t\t\t\tds.deferred[id] = encoded\n\t\t\t\t\tds.r.Keep()\n"},
	}},
	// Programs see the limits of their sandbox: see runsc/sandbox/limits.go.
	{"runsc/sandbox/sandbox.go", "5bb26b649bbe2bbfd5c61de1cbbadb4eb537ff5d5e6b610bac2e9dd11979198e", []edit{
		{"\tmem := totalSysMem\n", "\tlimits, mem := specLimits(args.Spec, totalSysMem)\n\tcmd.Args = append(cmd.Args, limits...)\n"},
	}},
	{"runsc/boot/loader.go", "70508976f5b1d52094da8c002dd805fd9f2b8cb02a07ac3037fe8d3b250d7c15", []edit{
		{"\t\tApplicationCores:     uint(args.NumCPU),\n", "\t\tApplicationCores:     args.visibleCores(),\n"},
	}},
	{"pkg/sentry/syscalls/linux/sys_sysinfo.go", "a3fcf09a141caa0a7f3474b28d80439e48a33fad756eaca9d6b00174a1afa94a", []edit{
		{"\tmemFree := totalSize - totalUsage\n\tif memFree > totalSize {\n\t\t// Underflow.\n\t\tmemFree = 0\n",
			"\tmemFree := totalSize - totalUsage\n\tvar excess uint64 // what is in use beyond the total, for the guest that enforces the limit\n\tif memFree > totalSize {\n\t\t// Underflow.\n\t\texcess = -memFree\n\t\tmemFree = 0\n"},
		{"\t\tFreeRAM:  memFree,\n", "\t\tFreeRAM:  memFree,\n\t\tBufferRAM: excess,\n"},
	}},
	{"pkg/sentry/kernel/task_run.go", "9d7def4b3b288a3b6562c4dd53d3185c3a4f05fbbd235cbfed64eca4794c917f", []edit{
		{"\t\t\tfaultCounter.Increment()\n", "\t\t\tfaultCounter.Increment()\n\t\t\tt.brake()\n"},
	}},
	// The start of a sentry does not start a third program.
	{"runsc/cmd/sentry/sentrycmd/boot.go", "168bd3c5adf5ad9f0126ee96f58acb758a40df62b128b67f207173b3030d8fff", []edit{
		{"\t\"os\"\n",
			"\t\"os\"\n\t\"os/exec\"\n"},
		{"\t\t\tcmd, w := sandboxsetup.ExecProcUmounter()\n\t\t\tif b.willReexec() {\n",
			"\t\t\tvar w *os.File\n\t\t\tif b.willReexec() {\n\t\t\t\tvar cmd *exec.Cmd\n\t\t\t\tcmd, w = sandboxsetup.ExecProcUmounter()\n"},
		{"\t\t\t} else {\n\t\t\t\t// Keep `w` alive until",
			"\t\t\t} else {\n\t\t\t\tw = forkProcUnmounter()\n\t\t\t\t// Keep `w` alive until"},
	}},
	// A pause interrupts threads of the host. What that does to a notification of seccomp is not the end
	// of the sandbox.
	{"pkg/sentry/platform/systrap/syscall_thread.go", "4bef3b275e3b12d9c8951cc5b62e190533566de7dc712e75bf957a338cf32a91", []edit{
		{"\tif t.seccompNotify != nil {\n\t\tif err := t.notifySeccompThread(); err != nil {\n\t\t\tt.thread.Warningf(\"%s\", err)\n\t\t\treturn 0, errDeadSubprocess\n\t\t}\n\t\tif err := t.waitForSeccompNotify(); err != nil {\n\t\t\tt.thread.Warningf(\"failed waiting for seccomp notify: %s\", err)\n\t\t\treturn 0, errDeadSubprocess\n\t\t}\n\t} else {\n",
			"\tif t.seccompNotify != nil {\n\t\tif err := t.notified(stubMsg); err != nil {\n\t\t\tt.thread.Warningf(\"%s\", err)\n\t\t\treturn 0, errDeadSubprocess\n\t\t}\n\t} else {\n"},
		{"\t\tcase 0:\n\t\t\treturn nil\n\t\tcase unix.ENOENT:\n", "\t\tcase 0:\n\t\t\treturn nil\n\t\tcase unix.EINTR:\n\t\t\t// This thread was interrupted before it had the lock of the filter.\n\t\tcase unix.ENOENT:\n"},
	}},
	{"pkg/sentry/platform/systrap/syscall_thread_unsafe.go", "46cbb710a5f09f9f24160fcf6c0340b1c2d489e9964692d55716ee6379b85896", []edit{
		{"\t\tif errno == unix.EINTR && t.subproc.alive() {\n", "\t\t// ENOENT: the stub was interrupted after it woke this thread. It will notify again.\n\t\tif (errno == unix.EINTR || errno == unix.ENOENT) && t.subproc.alive() {\n"},
	}},
}
