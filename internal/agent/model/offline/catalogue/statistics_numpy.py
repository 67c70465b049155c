import numpy as np

numbers = np.array({{nums .numbers}})
{{- if has .stats "mean"}}
print("mean:", np.mean(numbers)){{end}}
{{- if has .stats "median"}}
print("median:", np.median(numbers)){{end}}
{{- if has .stats "stdev"}}
print("stdev:", np.std(numbers, ddof=1)){{end}}
{{- if has .stats "variance"}}
print("variance:", np.var(numbers, ddof=1)){{end}}
{{- if has .stats "min"}}
print("min:", np.min(numbers)){{end}}
{{- if has .stats "max"}}
print("max:", np.max(numbers)){{end}}
{{- if has .stats "sum"}}
print("sum:", np.sum(numbers)){{end}}
