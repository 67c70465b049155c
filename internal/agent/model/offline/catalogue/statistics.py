{{if .json}}import json
{{end}}import statistics

numbers = {{nums .numbers}}
results = {
{{- if has .stats "mean"}}
    "mean": statistics.mean(numbers),{{end}}
{{- if has .stats "median"}}
    "median": statistics.median(numbers),{{end}}
{{- if has .stats "mode"}}
    "mode": statistics.multimode(numbers)[0],{{end}}
{{- if has .stats "stdev"}}
    "stdev": statistics.stdev(numbers),{{end}}
{{- if has .stats "variance"}}
    "variance": statistics.variance(numbers),{{end}}
{{- if has .stats "min"}}
    "min": min(numbers),{{end}}
{{- if has .stats "max"}}
    "max": max(numbers),{{end}}
{{- if has .stats "sum"}}
    "sum": sum(numbers),{{end}}
{{- if has .stats "range"}}
    "range": max(numbers) - min(numbers),{{end}}
{{- if has .stats "count"}}
    "count": len(numbers),{{end}}
}
{{if .json}}print(json.dumps({name: round(value, 4) for name, value in results.items()}))
{{else}}print("Numbers:", ", ".join(map(str, numbers)))
for name, value in results.items():
    print(f"{name}: {round(value, 4):g}")
{{end}}
