package boot

// visibleCores is the number of processors that programs see: their share, rounded up. The
// sentry itself uses all of them, NumCPU.
func (a *Args) visibleCores() uint {
	if a.CPUQuota <= 0 || a.CPUPeriod <= 0 {
		return uint(a.NumCPU)
	}
	quota, period := uint64(a.CPUQuota), uint64(a.CPUPeriod)
	return uint(min((quota+period-1)/period, uint64(a.NumCPU)))
}
