// Everything in metres or in kilograms.
const factors = {
  kilometers: 1000, miles: 1609.344, meters: 1, feet: 0.3048, inches: 0.0254, centimeters: 0.01,
  kilograms: 1, pounds: 0.45359237,
};
const value = {{num .value}};
const result = (value * factors["{{.from}}"]) / factors["{{.to}}"];
console.log(value + " {{.from}} = " + Number(result.toFixed(4)) + " {{.to}}");
